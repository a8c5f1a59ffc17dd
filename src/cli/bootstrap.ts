import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import { Lifecycle } from "../kit/lifecycle.ts";
import { listenerUrl, openInstallation } from "../main.ts";
import { askService } from "./ask-service.ts";
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
  const asked = await askService(settings.dataDir, "bootstrap");
  const { projectId, token, apiUrl, baseUrl } = asked
    ? (asked.result as Bootstrap)
    : await openDirectly(settings);
  const fields = { project_id: projectId, token, api_url: apiUrl, base_url: baseUrl };
  if (flags["json"]) process.stdout.write(`${JSON.stringify(fields)}\n`);
  else
    for (const [name, value] of Object.entries(fields)) process.stdout.write(`${name.padEnd(12)}${value}\n`);
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
