import { PARENT_ENV } from "../../config/settings.ts";
import type { Log } from "../../kit/log.ts";
import type { Service } from "../../main.ts";
import { EXIT } from "../failure.ts";

/** How long a service may take to stop after such an error. */
const LAST_MS = 5_000;
/** Of it, how long calls may continue; the rest is for recording how they ended. */
const GRACE_MS = 3_000;
/** A broken service may throw in every timer. */
const MAX_LOGGED = 20;

/**
 * Catches exceptions and rejections that nothing else has caught. They leave the process in an unknown state: it logs
 * the error, gives runs in progress a few seconds, and asks its parent for a new process by the exit code. Returns a
 * function that takes the service to stop first.
 */
export function spreadLastNet(log: Log): (service: Pick<Service, "stop">) => void {
  let held: Pick<Service, "stop"> | null = null;
  let count = 0;
  const end: () => never = () => process.exit(EXIT.fault);
  // The log has no reader any more, and another process would have none either.
  process.stderr.on("error", () => process.exit(EXIT.failure));
  process.on("uncaughtException", (thrown) => {
    count += 1;
    if (count <= MAX_LOGGED) log.fatal({ err: thrown }, "uncaught error: the service is shutting down");
    if (count > 1) return;
    if (!held) end();
    setTimeout(end, LAST_MS);
    void held
      .stop(GRACE_MS)
      .catch((error: unknown) => log.error({ err: error }, "the service did not shut down cleanly"))
      .then(end);
  });
  return (service) => (held = service);
}

/** A second signal this long after the first means: now. Sooner it is the same signal, forwarded by npm. */
const IMPATIENCE_MS = 1_000;

/** Catches SIGINT and SIGTERM from its construction on: a signal during the start takes effect after it. */
export class StopSignals {
  readonly #received = new Map<string, number>();
  readonly #first = Promise.withResolvers<void>();

  constructor() {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => this.#receive(name));
  }

  /** Waits for a signal, stops the service, and exits: else a signal that the parent forwards late would kill the process. */
  async end(service: Pick<Service, "stop">, onStopped: () => void, onStopping = () => {}): Promise<never> {
    await this.#first.promise;
    onStopping();
    await service.stop();
    onStopped();
    return process.exit();
  }

  #receive(name: string): void {
    // Each kind by itself: Ctrl-C comes from the terminal, and as SIGTERM from the parent, perhaps late.
    const since = this.#received.get(name);
    if (since === undefined) this.#received.set(name, performance.now());
    else if (performance.now() - since > IMPATIENCE_MS) process.exit(EXIT.interrupted);
    this.#first.resolve();
  }
}

const LOOK_MS = 500;

/** Ends this process when its parent is gone, so that it frees the data directory. Only polling finds that out. */
export function endWithParent(): void {
  const parent = Number(process.env[PARENT_ENV]);
  delete process.env[PARENT_ENV]; // It is not the parent of our children.
  if (!(parent > 0)) return;
  const look = (): void => {
    if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  };
  setInterval(look, LOOK_MS).unref();
  look();
}
