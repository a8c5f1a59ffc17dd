import type { Command } from "commander";
import { APP } from "../../shapes/apps.ts";
import type { AppRecord } from "../../shapes/apps.ts";
import type { Api } from "../api/api.ts";
import { examples, remote } from "../options.ts";
import { withService } from "../task.ts";
import type { Task } from "../task.ts";

/** `millrace restart APP` */
export function defineRestart(command: Command): void {
  remote(command).argument("<app>", "the app's name");
  examples(command, "millrace restart hello").action(withService(restart));
}

async function restart({ api, out }: Task, app: string): Promise<void> {
  const restarted = await restartApp(api, app);
  out.show(restarted, () => `${app} is restarted.\n`);
}

/** Has the service replace an app's replicas; resolves once calls go to the new ones. */
export async function restartApp(api: Api, app: string): Promise<AppRecord> {
  return await api.ask(APP, "POST", await api.appPath(app, "/restart"), { about: { app } });
}
