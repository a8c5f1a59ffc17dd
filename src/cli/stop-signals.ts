import type { Service } from "../main.ts";
import { EXIT } from "./failure.ts";

/** A second signal this long after the first means: now. Sooner it is the same one, passed on by npm. */
const IMPATIENCE_MS = 1_000;

/** Hears SIGINT and SIGTERM from the moment it is made: one that comes during the start is acted on after it. */
export class StopSignals {
  readonly #heard = new Map<string, number>();
  readonly #first = Promise.withResolvers<void>();

  constructor() {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => this.#hear(name));
  }

  /** Waits for a signal, then stops the service in order. */
  async stop(service: Pick<Service, "stop">, onStopping: () => void = () => {}): Promise<void> {
    await this.#first.promise;
    onStopping();
    await service.stop();
  }

  #hear(name: string): void {
    // Each kind by itself: Ctrl-C comes from the terminal, and again as SIGTERM from the parent, however late.
    const since = this.#heard.get(name);
    if (since === undefined) this.#heard.set(name, performance.now());
    else if (performance.now() - since > IMPATIENCE_MS) process.exit(EXIT.interrupted);
    this.#first.resolve();
  }
}
