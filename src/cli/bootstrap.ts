import { readSettings } from "../config/settings.ts";
import { askOperator } from "./ask-operator.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace bootstrap`: makes the default project and the owner's token once, and prints them every time. */
export async function bootstrap(flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const { projectId, token, apiUrl, baseUrl } = await askOperator(settings, "bootstrap");
  const fields = { project_id: projectId, token, api_url: apiUrl, base_url: baseUrl };
  if (flags["json"]) process.stdout.write(`${JSON.stringify(fields)}\n`);
  else
    for (const [name, value] of Object.entries(fields)) process.stdout.write(`${name.padEnd(12)}${value}\n`);
}
