import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";

/** How long a server may say nothing, and how long its whole answer may take, however slowly that comes. */
export type Patience = { readonly silenceMs: number; readonly wholeMs: number };

/** Sends a request that was made with a timeout of `silenceMs`, and gives its answer. Patience ends both of them. */
export async function sendPatiently(
  sent: ClientRequest,
  body: string | Buffer | undefined,
  { silenceMs, wholeMs }: Patience,
): Promise<IncomingMessage> {
  // Whoever reads the answer is told by that; the request would tell nobody, and end the service.
  sent.on("error", () => {});
  sent.once("timeout", () => sent.destroy(new Error(`no answer for ${silenceMs / 1000} s`)));
  const late = setTimeout(() => sent.destroy(new Error(`no whole answer in ${wholeMs / 1000} s`)), wholeMs);
  sent.once("close", () => clearTimeout(late));
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return answer;
}

/** The text of an answer; throws if it is longer than so many bytes. */
export async function readText(answer: IncomingMessage, maxBytes: number, whose: string): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`an answer of ${whose} is too large`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes).toString("utf8");
}
