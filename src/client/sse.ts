/** One message of a stream of server-sent events. */
export type Message = {
  /** Its own `id:` line; null without one. */
  readonly id: string | null;
  /** What its `event:` line names; null without one. */
  readonly event: string | null;
  readonly data: string;
};

/** Reads server-sent events piece by piece, wherever the pieces are cut. Only complete messages are given. */
export class SseParser {
  readonly #decoder = new TextDecoder();
  /** Pieces of a line whose end has not come. */
  #line: string[] = [];
  #endedWithCr = false;
  #id: string | null = null;
  #event: string | null = null;
  #data: string[] = [];

  /** The messages that these bytes complete. */
  feed(bytes: Uint8Array): Message[] {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return [];
    if (this.#endedWithCr && text.startsWith("\n")) text = text.slice(1);
    this.#endedWithCr = text.endsWith("\r");
    const lines = text.split(/\r\n|\n|\r/);
    const last = lines.pop() ?? "";
    const messages: Message[] = [];
    for (const end of lines) {
      const message = this.#endLine(this.#line.length === 0 ? end : this.#line.join("") + end);
      this.#line = [];
      if (message) messages.push(message);
    }
    if (last !== "") this.#line.push(last);
    return messages;
  }

  #endLine(line: string): Message | null {
    if (line === "") return this.#endMessage();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const start = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon === -1 ? "" : line.slice(start);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #endMessage(): Message | null {
    const message = { id: this.#id, event: this.#event || null, data: this.#data.join("\n") };
    const hasData = this.#data.length > 0;
    this.#id = null;
    this.#event = null;
    this.#data = [];
    return hasData ? message : null;
  }
}
