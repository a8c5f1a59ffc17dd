import { randomUUID } from "node:crypto";
import type { Client } from "pg";
import { backoffMs } from "../../kit/retry.ts";
import { systemClock } from "../../kit/clock.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { clientClass } from "./hosts.ts";

const CHANNEL = "millrace_changes";
/** At most one hint is sent in this time, however many changes there are: each costs every service a look. */
const SEND_EVERY_MS = 20;
/** So often it makes sure that it still hears: a connection may die without a word, and a pooler may carry none. */
const CHECK_EVERY_MS = 30_000;
/** So long its own word may be on its way, and a connection may take to be made. */
const HEARD_WITHIN_MS = 5_000;
const FIRST_GAP_MS = 250;
const LONGEST_GAP_MS = 30_000;

/**
 * One connection by which services tell each other that something was changed (`NOTIFY`), made once somebody listens.
 * It is only ever quicker than looking: where it is lost, or leads through a pooler that carries no notifications, it
 * is made anew with growing gaps, and hints are lost meanwhile.
 */
export class HintLine {
  /** Tells its own word from others'. A process number would not: a pooler gives out its own. */
  readonly #id = randomUUID();
  readonly #url: string;
  readonly #client: typeof Client;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #connection: Client | null = null;
  #connecting: Promise<void> | null = null;
  /** Since it last heard itself. */
  #failures = 0;
  #again: Timer | null = null;
  #check: Timer | null = null;
  #isDue = false;
  #sending: Timer | null = null;
  #isClosed = false;

  constructor(url: string, clock: Clock = systemClock) {
    this.#url = url;
    this.#client = clientClass(url);
    this.#clock = clock;
  }

  /** Calls back at each word of another service, until what it returns is called. */
  listen(onHint: () => void): () => void {
    this.#listeners.add(onHint);
    this.#connecting ??= this.#connect();
    return () => void this.#listeners.delete(onHint);
  }

  /** Tells the others, unless that was done just now: then a moment later, once. */
  send(): void {
    this.#isDue = true;
    if (this.#sending || this.#isClosed) return;
    this.#sendNow();
  }

  /** At once: where the network is cut, a farewell would be waited for as long as TCP tries to send it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of [this.#again, this.#sending]) timer?.cancel();
    if (this.#connection) this.#lose(this.#connection);
    await this.#connecting;
  }

  #sendNow(): void {
    this.#isDue = false;
    this.#notify();
    this.#sending = this.#clock.after(SEND_EVERY_MS, () => {
      this.#sending = null;
      if (this.#isDue) this.#sendNow();
    });
  }

  /** On the connection that listens: its own word comes back by it. */
  #notify(): void {
    const connection = this.#connection;
    if (!connection) return;
    connection.query(`notify ${CHANNEL}, '${this.#id}'`).catch(() => this.#lose(connection));
  }

  async #connect(): Promise<void> {
    const connection = new this.#client({
      connectionString: this.#url,
      application_name: "millrace",
      connectionTimeoutMillis: HEARD_WITHIN_MS,
      query_timeout: HEARD_WITHIN_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: HEARD_WITHIN_MS,
    });
    connection.on("error", () => this.#lose(connection));
    connection.on("end", () => this.#lose(connection));
    connection.on("notification", ({ payload }) => {
      if (this.#connection !== connection) return;
      if (payload === this.#id) this.#hearItself();
      else this.#tell();
    });
    this.#connection = connection;
    try {
      await connection.connect();
      await connection.query(`listen ${CHANNEL}`);
    } catch {
      this.#lose(connection);
      return;
    }
    if (this.#isClosed || this.#connection !== connection) return;
    // What was said before it listened.
    this.#tell();
    this.#prove();
  }

  #tell(): void {
    for (const onHint of this.#listeners) onHint();
  }

  /** Says something, and gives the connection up unless it hears that. */
  #prove(): void {
    const connection = this.#connection;
    if (!connection) return;
    this.#check?.cancel();
    this.#check = this.#clock.after(HEARD_WITHIN_MS, () => this.#lose(connection));
    this.#notify();
  }

  #hearItself(): void {
    this.#failures = 0;
    this.#check?.cancel();
    this.#check = this.#clock.after(CHECK_EVERY_MS, () => this.#prove());
  }

  #lose(connection: Client): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    this.#check?.cancel();
    // Without a word to the server, which may never read it.
    connection.connection.stream.destroy();
    if (this.#isClosed) return;
    this.#failures += 1;
    const gapMs = backoffMs(this.#failures, FIRST_GAP_MS, LONGEST_GAP_MS);
    this.#again = this.#clock.after(gapMs, () => {
      this.#connecting = this.#connect();
    });
  }
}
