import { request } from "node:http";

export type TimedCall = {
  /** From before the connection is opened to the last byte of the answer. */
  readonly ms: number;
  /** The `result` member of the answer. */
  readonly result: Record<string, unknown>;
};

/** Makes one call on a connection of its own and times it; anything but a 200 is an error. */
export async function timedCall(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<TimedCall> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string; ms: number }>();
  const startedAt = performance.now();
  const call = request(url, {
    method: "POST",
    agent: false,
    headers: { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body), ...headers },
  });
  call.on("error", reject);
  call.on("response", (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (part: string) => (text += part));
    response.on("error", reject);
    response.on("end", () => {
      resolve({ status: response.statusCode ?? 0, text, ms: performance.now() - startedAt });
    });
  });
  call.end(body);
  const { status, text, ms } = await promise;
  if (status !== 200) throw new Error(`status ${status} from ${url}: ${text.slice(0, 200)}`);
  return { ms, result: (JSON.parse(text) as { result: Record<string, unknown> }).result };
}
