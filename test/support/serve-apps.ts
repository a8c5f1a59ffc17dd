import { rm } from "node:fs/promises";
import path from "node:path";
import { testSettings } from "./test-settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { type Command, scratchDirectory, serve } from "./command-line.ts";
import { prepareDatabase } from "./blank-schema.ts";
import { type TestApp, writeApp } from "./service.ts";

/** A service in a process of its own, as in production, with apps deployed. */
export class ServedApps {
  readonly command: Command;
  readonly directory: string;
  /** Where the project's apps are: `{api_url}/v4/{project_id}`. */
  readonly url: string;
  readonly token: string;

  constructor(command: Command, directory: string, url: string, token: string) {
    this.command = command;
    this.directory = directory;
    this.url = url;
    this.token = token;
  }

  /** Calls a function of an app; gives the status and the body's JSON. */
  // oxlint-disable-next-line no-explicit-any
  async call(app: string, functionName: string, body: object = {}): Promise<{ status: number; json: any }> {
    const response = await fetch(`${this.url}/${app}/${functionName}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return { status: response.status, json: await response.json() };
  }
}

/** Deploys apps into a new data directory, then serves it with `bin/millrace serve`. */
export async function serveApps(
  apps: Record<string, TestApp>,
  env: Record<string, string> = {},
): Promise<ServedApps> {
  const directory = scratchDirectory();
  const dataDir = path.join(directory, "data");
  const settings = testSettings({ dataDir, apiPort: 0, basePort: 0 });
  await prepareDatabase(settings);
  const service = await startService(settings, { log: createLog("silent") });
  const sources = path.join(directory, "sources");
  for (const [name, app] of Object.entries(apps)) {
    await service.install(await writeApp(path.join(sources, name), name, app));
  }
  const { projectId, token } = service.owner;
  await service.stop();
  await rm(sources, { recursive: true });
  const { command, apiUrl } = await serve(dataDir, env);
  return new ServedApps(command, directory, `${apiUrl}/v4/${projectId}`, token);
}
