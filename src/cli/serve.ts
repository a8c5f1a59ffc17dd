import { readSettings } from "../config/settings.ts";
import { systemClock } from "../kit/clock.ts";
import { createLog } from "../kit/log.ts";
import { startService } from "../main.ts";
import type { Service } from "../main.ts";
import { copyAppLines } from "./app-lines.ts";

/** A second Ctrl-C this long after the first means: now. Sooner it is the same one, passed on by npm. */
const IMPATIENCE_MS = 1_000;

export type ServeFlags = Record<string, unknown>;

/** `millrace serve`: the service alone, until a signal ends it. */
export async function serve(flags: ServeFlags): Promise<void> {
  const { settings, warnings } = readSettings({ flags, env: process.env });
  const log = createLog(settings.logLevel);
  for (const warning of warnings) log.warn(warning);
  const lines = copyAppLines(systemClock, ({ text, ...where }) => log.info(where, text));
  const service = await startService(settings, { log, onAppLog: lines.onAppLog });
  await untilSignal(service);
  lines.stop();
}

/** Waits for SIGINT or SIGTERM, then stops in order. */
export async function untilSignal(service: Service, onStopping: () => void = () => {}): Promise<void> {
  let stoppingSince: number | null = null;
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      if (stoppingSince !== null) {
        if (Date.now() - stoppingSince > IMPATIENCE_MS) process.exit(130);
        return;
      }
      stoppingSince = Date.now();
      onStopping();
      service.stop().then(resolve, reject);
    };
    process.on("SIGINT", stop);
    process.on("SIGTERM", stop);
  });
}
