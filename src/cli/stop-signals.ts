import type { Service } from "../main.ts";
import { EXIT } from "./failure.ts";

/** A second signal this long after the first means: now. Sooner it is the same one, passed on by npm. */
const IMPATIENCE_MS = 1_000;

type StopSteps = { readonly onStopping?: () => void; readonly onStopped: () => void };

/** Hears SIGINT and SIGTERM from the moment it is made: one that comes during the start is acted on after it. */
export class StopSignals {
  readonly #heard = new Map<string, number>();
  readonly #first = Promise.withResolvers<void>();

  constructor() {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => this.#hear(name));
  }

  /**
   * Waits for a signal, stops the service in order, and exits. A process that ends because it has nothing left to do
   * takes its handlers down first: the signal that the parent passes on, however late, would kill it.
   */
  async end(service: Pick<Service, "stop">, { onStopping, onStopped }: StopSteps): Promise<never> {
    await this.#first.promise;
    onStopping?.();
    await service.stop();
    onStopped();
    return process.exit();
  }

  #hear(name: string): void {
    // Each kind by itself: Ctrl-C comes from the terminal, and again as SIGTERM from the parent, however late.
    const since = this.#heard.get(name);
    if (since === undefined) this.#heard.set(name, performance.now());
    else if (performance.now() - since > IMPATIENCE_MS) process.exit(EXIT.interrupted);
    this.#first.resolve();
  }
}
