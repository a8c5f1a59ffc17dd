import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";

/** How long a server may send nothing, and how long its whole answer may take. */
export type Patience = { readonly silenceMs: number; readonly wholeMs: number };

/** Sends a request that has a timeout of `silenceMs`, and returns its answer within the limits. */
export async function sendPatiently(
  sent: ClientRequest,
  body: string | Buffer | undefined,
  { silenceMs, wholeMs }: Patience,
): Promise<IncomingMessage> {
  // The reader of the answer sees the error. Without a listener here it would end the service.
  sent.on("error", () => {});
  sent.once("timeout", () => sent.destroy(new Error(`no answer for ${silenceMs / 1000} s`)));
  const late = setTimeout(() => sent.destroy(new Error(`no whole answer in ${wholeMs / 1000} s`)), wholeMs);
  sent.once("close", () => clearTimeout(late));
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return answer;
}

/** The text of an answer; throws if it is longer than `maxBytes`. */
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

/** The JSON of a successful answer, which may be empty; throws what `refuse` makes of any other. */
export async function readJson(
  answer: IncomingMessage,
  maxBytes: number,
  whose: string,
  refuse: (status: number, text: string) => Error,
): Promise<unknown> {
  const text = await readText(answer, maxBytes, whose);
  const { statusCode = 0 } = answer;
  if (statusCode < 200 || statusCode > 299) throw refuse(statusCode, text);
  if (text === "") return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${whose} answered with no JSON`, { cause: error });
  }
}
