import { request } from "node:http";
import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import { Lifecycle } from "../kit/lifecycle.ts";
import { runtimeDir } from "../kit/runtime-dir.ts";
import { listenerUrl, openInstallation } from "../main.ts";
import { controlSocketPath } from "../management/control-socket.ts";
import type { ServeFlags } from "./serve.ts";

type Bootstrap = {
  readonly projectId: string;
  readonly token: string;
  readonly apiUrl: string;
  readonly baseUrl: string;
};

/** `millrace bootstrap`: makes the default project and the owner's token once, and prints them every time. */
export async function bootstrap(flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { projectId, token, apiUrl, baseUrl } =
    (await askService(settings)) ?? (await openDirectly(settings));
  const fields = { project_id: projectId, token, api_url: apiUrl, base_url: baseUrl };
  if (flags["json"]) process.stdout.write(`${JSON.stringify(fields)}\n`);
  else
    for (const [name, value] of Object.entries(fields)) process.stdout.write(`${name.padEnd(12)}${value}\n`);
}

/** Asks a running service over its control socket; null when none runs. */
async function askService({ dataDir }: Settings): Promise<Bootstrap | null> {
  const socketPath = controlSocketPath(runtimeDir(dataDir));
  return await new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: "/bootstrap", timeout: 5_000 }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (text += part));
      response.on("end", () => resolve(JSON.parse(text) as Bootstrap));
    });
    asked.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ECONNREFUSED") resolve(null);
      else reject(error);
    });
    asked.end();
  });
}

async function openDirectly(settings: Settings): Promise<Bootstrap> {
  const life = new Lifecycle();
  try {
    const { owner } = await openInstallation(settings, life);
    const { host, apiPort, basePort, publicApiUrl, publicBaseUrl } = settings;
    return {
      ...owner,
      apiUrl: publicApiUrl ?? listenerUrl(host, apiPort),
      baseUrl: publicBaseUrl ?? listenerUrl(host, basePort),
    };
  } finally {
    await life.stop();
  }
}
