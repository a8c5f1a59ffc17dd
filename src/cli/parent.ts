import { PARENT_ENV } from "../config/settings.ts";

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
