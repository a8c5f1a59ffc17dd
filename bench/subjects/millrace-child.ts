import { parseArgs } from "node:util";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { type Service, startService } from "../../src/main.ts";
import { endWithParent, tellMemory } from "../child-side.ts";

// Runs the service for the bench: `node millrace-child.ts [--max-connections N] [--database-url URL] [--isolation LEVEL] DATA_DIR
// [APP_FOLDER…]`. When the apps are deployed it prints one line, {"url": where the project's apps are called,
// "projectUrl": where it is managed, "token": the owner's token}.

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "max-connections": { type: "string" },
    "database-url": { type: "string" },
    isolation: { type: "string" },
  },
});

/** The only calls into the service itself; everything else in the bench goes through HTTP. */
async function startWithApps(dataDir: string, appFolders: readonly string[]): Promise<Service> {
  // Production defaults, and none of the caller's MILLRACE_ variables: figures must not depend on a shell.
  const flags = {
    dataDir,
    apiPort: "0",
    basePort: "0",
    maxConnections: values["max-connections"],
    databaseUrl: values["database-url"],
    isolation: values.isolation,
  };
  const { settings } = readSettings({ flags, env: {} });
  const service = await startService(settings, { log: createLog(settings.logLevel) });
  for (const folder of appFolders) await service.install(folder);
  return service;
}

const [dataDir, ...appFolders] = positionals;
if (dataDir === undefined) throw new Error("usage: millrace-child.ts DATA_DIR [APP_FOLDER…]");
const starting = startWithApps(dataDir, appFolders);
endWithParent(async () => (await starting).stop());
const { apiUrl, baseUrl, owner } = await starting;
const { projectId, token } = owner;
const [url, projectUrl] = [`${apiUrl}/v4/${projectId}`, `${baseUrl}/v2/projects/${projectId}`];
console.log(JSON.stringify({ url, projectUrl, token }));
tellMemory();
