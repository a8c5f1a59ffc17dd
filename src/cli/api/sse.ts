/** A message of an event stream. */
export type StreamMessage = {
  readonly id: string | null;
  readonly event: string | null;
  readonly data: string;
};

/** The messages of a stream of server-sent events, as they come; one that was cut off in the middle is none. */
export async function* readMessages(body: AsyncIterable<Uint8Array>): AsyncGenerator<StreamMessage> {
  const decoder = new TextDecoder();
  let rest = "";
  let block: string[] = [];
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true });
    // A CR at the end may be half of a CRLF.
    const complete = rest.endsWith("\r") ? rest.slice(0, -1) : rest;
    const lines = complete.split(/\r\n|\r|\n/);
    rest = (lines.pop() ?? "") + rest.slice(complete.length);
    for (const line of lines) {
      if (line !== "") {
        block.push(line);
        continue;
      }
      const message = readBlock(block);
      block = [];
      if (message) yield message;
    }
  }
}

function readBlock(lines: readonly string[]): StreamMessage | null {
  let [id, event]: (string | null)[] = [null, null];
  const data: string[] = [];
  for (const line of lines) {
    const [, name = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id") id = value;
  }
  return data.length === 0 ? null : { id: id ?? null, event: event ?? null, data: data.join("\n") };
}
