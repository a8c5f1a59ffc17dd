import type { Log } from "../kit/log.ts";
import type { Service } from "../main.ts";
import { EXIT } from "./failure.ts";

/** All that a service may still finish after such an error. */
const LAST_MS = 5_000;
/** Of it, how long calls may go on; the rest is for writing down what became of them. */
const GRACE_MS = 3_000;
/** A broken service may throw in every timer. */
const MAX_LOGGED = 20;

/** What an error falls into that nothing else has caught. */
export type LastNet = {
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
