import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { AppLogLine } from "../../apps/catalog.ts";
import { readSettings } from "../../config/settings.ts";
import { createLog } from "../../kit/log.ts";
import { startService } from "../../main.ts";
import type { Service } from "../../main.ts";

export type DevServiceOptions = {
  readonly dataDir: string;
  /** Null takes the usual ones, or any that are free when those are taken. */
  readonly apiPort: string | null;
  readonly basePort: string | null;
  readonly onAppLog: (line: AppLogLine) => void;
};

/** Starts a service of one's own, in this process and on this machine alone. */
export async function startDevService(options: DevServiceOptions): Promise<Service> {
  const { dataDir, apiPort, basePort } = options;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const ignore = path.join(dataDir, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
  try {
    return await start(options, { apiPort: apiPort ?? "4000", basePort: basePort ?? "4100" });
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
    if (!isTaken || apiPort !== null || basePort !== null) throw error;
    return await start(options, { apiPort: "0", basePort: "0" });
  }
}

async function start(
  { dataDir, onAppLog }: DevServiceOptions,
  ports: { readonly apiPort: string; readonly basePort: string },
): Promise<Service> {
  const { settings } = readSettings({
    flags: { dataDir, ...ports, host: "127.0.0.1" },
    env: process.env,
    // Whoever presses Ctrl-C wants the prompt back, and may have a webhook on this machine.
    defaults: { log_level: "error", shutdown_grace: "1s", webhook_allow: "127.0.0.0/8,::1/128" },
  });
  return await startService(settings, { log: createLog(settings.logLevel), onAppLog });
}
