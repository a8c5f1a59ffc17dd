import type { Socket } from "node:net";

/** What a server may say in one answer; the longest that is known has some 20 lines. */
const MAX_REPLY_BYTES = 16 * 1024;
const LINE = /^(\d{3})([ -]?)(.*)$/;
/** At most this much of the server's text is passed on. */
const MAX_TOLD_CHARS = 200;

/** What a server answered: a code and its lines of text. */
export type Reply = { readonly code: number; readonly lines: readonly string[] };

/** The server refused a command or sent something that is not SMTP. Never contains what was sent to it. */
export class SmtpError extends Error {
  /** Null where there was no answer, or none that could be read. */
  readonly code: number | null;

  constructor(message: string, code: number | null = null) {
    super(message);
    this.name = "SmtpError";
    this.code = code;
  }

  /** Whether the same may succeed later. */
  get isPassing(): boolean {
    return this.code === null || (this.code >= 400 && this.code < 500);
  }
}

/** One side of an SMTP conversation: a command, then its answer, in turn. */
export class Dialogue {
  readonly #socket: Socket;
  #buffered = "";
  #failure: Error | null = null;
  #wake = Promise.withResolvers<void>();

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", this.#onData);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
  }

  /** Lets go of the socket, for TLS to take it; throws if the server has said something unasked. */
  release(): Socket {
    this.#socket.off("data", this.#onData).off("error", this.#onError).off("close", this.#onClose);
    // What was sent in the clear must not count as said under TLS.
    if (this.#buffered !== "") throw new SmtpError("the mail server sent data out of turn");
    return this.#socket;
  }

  /** Sends a line and waits for an answer of that kind (2 or 3, its first digit); `what` names it in errors. */
  async ask(line: string, expected: 2 | 3, what: string): Promise<Reply> {
    this.write(`${line}\r\n`);
    return await this.read(expected, what);
  }

  /** As `ask`, for what is secret: a server may repeat it in its refusal, so only the code of that is told on. */
  async confide(line: string, expected: 2 | 3, what: string): Promise<void> {
    this.write(`${line}\r\n`);
    const { code } = await this.#next();
    if (kindOf(code) !== expected) throw new SmtpError(`the mail server refused ${what}: ${code}`, code);
  }

  write(text: string): void {
    if (!this.#failure) this.#socket.write(text);
  }

  /** Waits for an answer of that kind. */
  async read(expected: 2 | 3, what: string): Promise<Reply> {
    const reply = await this.#next();
    if (kindOf(reply.code) === expected) return reply;
    const said = reply.lines
      .join(" ")
      .replaceAll(/[^\x20-\x7e]/g, "?")
      .slice(0, MAX_TOLD_CHARS);
    throw new SmtpError(`the mail server refused ${what}: ${reply.code} ${said}`, reply.code);
  }

  async #next(): Promise<Reply> {
    for (;;) {
      const reply = this.#take();
      if (reply) return reply;
      if (this.#failure) throw this.#failure;
      await this.#wake.promise;
    }
  }

  /** The first whole answer of what has come; null while there is none. */
  #take(): Reply | null {
    const lines: string[] = [];
    let from = 0;
    for (;;) {
      const end = this.#buffered.indexOf("\n", from);
      if (end === -1) return null;
      const match = LINE.exec(this.#buffered.slice(from, end).replace(/\r$/, ""));
      if (!match) throw new SmtpError("the mail server sent something that is not SMTP");
      const [, code = "", mark, text = ""] = match;
      lines.push(text);
      from = end + 1;
      if (mark === "-") continue;
      this.#buffered = this.#buffered.slice(from);
      return { code: Number(code), lines };
    }
  }

  #ring(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers<void>();
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#buffered += bytes.toString("latin1");
    if (this.#buffered.length > MAX_REPLY_BYTES) {
      this.#failure ??= new SmtpError("the mail server's reply is too long");
      this.#socket.destroy();
    }
    this.#ring();
  };

  readonly #onError = (error: Error): void => {
    this.#failure ??= new SmtpError(`no connection to the mail server: ${error.message}`);
    this.#ring();
  };

  readonly #onClose = (): void => {
    this.#failure ??= new SmtpError("the mail server closed the connection");
    this.#ring();
  };
}

function kindOf(code: number): number {
  return Math.floor(code / 100);
}
