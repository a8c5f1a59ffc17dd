import type { Log } from "../../kit/log.ts";
import type { Service } from "../../main.ts";
import { EXIT } from "../failure.ts";
import { PARENT_ENV } from "../../config/settings.ts";

/** All that a service may still finish after such an error. */
const LAST_MS = 5_000;
/** Of it, how long calls may go on; the rest is for writing down what became of them. */
const GRACE_MS = 3_000;
/** A broken service may throw in every timer. */
const MAX_LOGGED = 20;

/** What an error falls into that nothing else has caught. */
type LastNet = {
  /** From now on this service is stopped before the process ends. */
  holds(service: Pick<Service, "stop">): void;
};

/**
 * Catches what nothing else has caught, exceptions and rejections alike. Such an error leaves the process in a state
 * that nobody has thought of: it is logged whole, no more work is accepted, what runs has a few seconds, and the exit
 * code asks the parent for a new process.
 */
export function spreadLastNet(log: Log): LastNet {
  let held: Pick<Service, "stop"> | null = null;
  let count = 0;
  const end = (): never => process.exit(EXIT.fault);
  // Nobody reads the log any more, and another process would have the same readers.
  process.stderr.on("error", () => process.exit(EXIT.failure));
  process.on("uncaughtException", (thrown) => {
    count += 1;
    if (count <= MAX_LOGGED) log.fatal({ err: thrown }, "uncaught error: the service is shutting down");
    if (count > 1) return;
    if (!held) end();
    else {
      setTimeout(end, LAST_MS);
      void stop(held, log).then(end);
    }
  });
  return { holds: (service) => (held = service) };
}

async function stop(service: Pick<Service, "stop">, log: Log): Promise<void> {
  try {
    await service.stop(GRACE_MS);
  } catch (error) {
    log.error({ err: error }, "the service did not shut down cleanly");
  }
}

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

const LOOK_MS = 500;

/**
 * Ends this process at once when its parent is gone: whoever kills the parent means the service, which must not stay
 * behind on its data directory. Nothing notifies a process of its parent's death, so it polls.
 */
export function endWithParent(): void {
  const parent = Number(process.env[PARENT_ENV]);
  delete process.env[PARENT_ENV]; // It is nobody's parent below.
  if (!(parent > 0)) return;
  const look = (): void => {
    if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  };
  setInterval(look, LOOK_MS).unref();
  look();
}
