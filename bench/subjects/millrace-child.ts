import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import type { Service } from "../../src/main.ts";
import { endWithParent } from "../child-side.ts";

// Runs the service for the bench: `node millrace-child.ts DATA_DIR [APP_FOLDER…]`. When the apps are deployed it
// prints one line, {"url": where the project's apps are, "token": the owner's token}.

/** The only calls into the service itself; everything else in the bench goes through HTTP. */
async function startWithApps(dataDir: string, appFolders: readonly string[]): Promise<Service> {
  // Production defaults, and none of the caller's MILLRACE_ variables: figures must not depend on a shell.
  const { settings } = readSettings({ flags: { dataDir, apiPort: "0", basePort: "0" }, env: {} });
  const service = await startService(settings, { log: createLog(settings.logLevel) });
  for (const folder of appFolders) await service.install(folder);
  return service;
}

const [dataDir, ...appFolders] = process.argv.slice(2);
if (dataDir === undefined) throw new Error("usage: millrace-child.ts DATA_DIR [APP_FOLDER…]");
const starting = startWithApps(dataDir, appFolders);
endWithParent(async () => (await starting).stop());
const { apiUrl, owner } = await starting;
console.log(JSON.stringify({ url: `${apiUrl}/v4/${owner.projectId}`, token: owner.token }));
