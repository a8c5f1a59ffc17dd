const MAX_LINES = 30;
const MAX_CHARS = 500;

/** How the agent says that a port was in use (`python/millrace_walls/server_port.py`). */
const CANNOT_LISTEN = /^\[millrace\] (cannot listen on (?:TCP port (\d{1,5})|PORT).*)$/;

/** The last lines that a process printed. */
export class LastLines {
  readonly #lines: string[] = [];
  /** Why it could not listen on a port, for people, and which that is; null where nothing is known of that. */
  #unheard: { readonly why: string; readonly port: number | null } | null = null;

  /** The port that it could not listen on, unless that is the one for its calls; null for none. */
  get portInUse(): number | null {
    return this.#unheard?.port ?? null;
  }

  add(text: string): void {
    if (text.trim() === "") return;
    const [, why, port] = CANNOT_LISTEN.exec(text.slice(0, MAX_CHARS)) ?? [];
    if (why !== undefined) this.#unheard = { why, port: port === undefined ? null : Number(port) };
    this.#lines.push(text.slice(0, MAX_CHARS));
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  /** The very last one, to follow a sentence; nothing if there is none. Why it could not listen comes after that. */
  lastWords(): string {
    const last = this.#lines.at(-1);
    const why = this.#unheard?.why;
    if (why === undefined) return last === undefined ? "." : `: ${last}`;
    return last === undefined || last.endsWith(why) ? `: it ${why}.` : `: ${last}. It ${why}.`;
  }

  /** Why it could not listen on a port, for people; null where nothing is known of that. */
  get obstacle(): string | null {
    const why = this.#unheard?.why;
    return why === undefined ? null : `it ${why}`;
  }

  /** All of them, with that line below. */
  above(message: string): string {
    return [...this.#lines, message].join("\n");
  }
}
