import { type App, type SecretMap } from "../model/app.ts";

/** What an app's processes find in their environment, wherever they run; `own` is what these see besides. */
export function appVariables(
  app: App,
  own: Readonly<Record<string, string>>,
  secrets: SecretMap,
): Record<string, string> {
  return { APP_NAME: app.name, PROJECT_ID: app.projectId, ...own, ...secrets };
}
