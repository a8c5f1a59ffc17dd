import { Interrupted } from "./failure.ts";

/**
 * Runs work that Ctrl-C ends: the first aborts the signal and leaves the work time to cancel what it began; a second
 * ends the process.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const onSignal = (name: "SIGINT" | "SIGTERM"): void => {
    const interrupted = new Interrupted(name);
    if (controller.signal.aborted) process.exit(interrupted.exitCode);
    controller.abort(interrupted);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  try {
    return await work(controller.signal);
  } catch (error) {
    // However the work noticed that it was ended, this is why.
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  }
}
