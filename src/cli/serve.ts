import { readSettings } from "../config/settings.ts";
import { systemClock } from "../kit/clock.ts";
import { createLog } from "../kit/log.ts";
import { startService } from "../main.ts";
import { copyAppLines } from "./app-lines.ts";
import { spreadLastNet } from "./last-net.ts";
import { endWithParent } from "./parent.ts";
import { StopSignals } from "./stop-signals.ts";

export type ServeFlags = Record<string, unknown>;

/** `millrace serve`: the service alone, until a signal ends it. */
export async function serve(flags: ServeFlags): Promise<void> {
  endWithParent();
  const signals = new StopSignals();
  const { settings, warnings } = readSettings({ flags, env: process.env });
  const log = createLog(settings.logLevel);
  const net = spreadLastNet(log);
  for (const warning of warnings) log.warn(warning);
  const lines = copyAppLines(systemClock, ({ text, ...where }) => log.info(where, text));
  const service = await startService(settings, { log, onAppLog: lines.onAppLog });
  net.holds(service);
  await signals.end(service, { onStopped: lines.stop });
}
