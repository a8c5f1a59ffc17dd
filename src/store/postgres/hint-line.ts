import { randomUUID } from "node:crypto";
import type { Client } from "pg";
import { backoffMs } from "../../kit/retry.ts";
import { type Clock, systemClock, type Timer } from "../../kit/clock.ts";
import { clientClass } from "./hosts.ts";

const CHANNEL = "millrace_changes";
/** The shortest time between two hints: each makes every service read the changes. */
const SEND_EVERY_MS = 20;
/** How often to check that notifications arrive: a connection may die silently, or a pooler may not forward them. */
const CHECK_EVERY_MS = 30_000;
/** How long its own notification, or making a connection, may take. */
const ANSWER_MS = 5_000;
const FIRST_GAP_MS = 250;
const LONGEST_GAP_MS = 30_000;

/**
 * A connection for `NOTIFY` between services, opened for the first listener. It is only an optimisation: while it is
 * lost, or if its pooler does not forward notifications, hints are lost, and it is reopened with backoff.
 */
export class HintLine {
  /** Identifies its own notifications. A process id would not: a pooler has its own. */
  readonly #id = randomUUID();
  readonly #url: string;
  readonly #client: typeof Client;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #connection: Client | null = null;
  #connecting: Promise<void> | null = null;
  /** Since its last own notification arrived. */
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

  /** Calls back at each notification of another service; returns a function that stops this. */
  listen(onHint: () => void): () => void {
    this.#listeners.add(onHint);
    this.#connecting ??= this.#connect();
    return () => void this.#listeners.delete(onHint);
  }

  /** Notifies the other services, at most once in `SEND_EVERY_MS`. */
  send(): void {
    if (this.#isClosed) return;
    this.#isDue = this.#sending !== null;
    if (this.#isDue) return;
    this.#notify();
    this.#sending = this.#clock.after(SEND_EVERY_MS, () => {
      this.#sending = null;
      if (this.#isDue) this.send();
    });
  }

  /** Closes the socket at once: without a network, TCP would retry a final message for a long time. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of [this.#again, this.#sending]) timer?.cancel();
    if (this.#connection) this.#lose(this.#connection);
    await this.#connecting;
  }

  /** Uses the listening connection, so that its own notification comes back. */
  #notify(): void {
    const connection = this.#connection;
    if (!connection) return;
    connection.query(`notify ${CHANNEL}, '${this.#id}'`).catch(() => this.#lose(connection));
  }

  async #connect(): Promise<void> {
    const connection = new this.#client({
      connectionString: this.#url,
      application_name: "millrace",
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: ANSWER_MS,
    });
    connection.on("error", () => this.#lose(connection));
    connection.on("end", () => this.#lose(connection));
    connection.on("notification", ({ payload }) => {
      if (this.#connection !== connection) return;
      if (payload === this.#id) this.#confirm();
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
    // For changes before it listened.
    this.#tell();
    this.#verify();
  }

  #tell(): void {
    for (const onHint of this.#listeners) onHint();
  }

  /** Sends a notification, and drops the connection if it does not come back. */
  #verify(): void {
    const connection = this.#connection;
    if (!connection) return;
    this.#check?.cancel();
    this.#check = this.#clock.after(ANSWER_MS, () => this.#lose(connection));
    this.#notify();
  }

  #confirm(): void {
    this.#failures = 0;
    this.#check?.cancel();
    this.#check = this.#clock.after(CHECK_EVERY_MS, () => this.#verify());
  }

  #lose(connection: Client): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    this.#check?.cancel();
    // Without a message to the server, which may never read it.
    connection.connection.stream.destroy();
    if (this.#isClosed) return;
    this.#failures += 1;
    const gapMs = backoffMs(this.#failures, FIRST_GAP_MS, LONGEST_GAP_MS);
    this.#again = this.#clock.after(gapMs, () => {
      this.#connecting = this.#connect();
    });
  }
}
