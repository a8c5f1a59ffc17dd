import path from "node:path";
import type { App } from "../model/app.ts";
import type { SecretMap } from "./secrets.ts";

export type VariableSources = {
  /** The project's persistent storage. */
  readonly storageDir: string;
  readonly secrets: SecretMap;
  /** The folder of installed packages; null when there is none. */
  readonly environment: string | null;
  /** What these processes see besides. */
  readonly own: Readonly<Record<string, string>>;
};

/** What an app's processes find in their environment, apart from what they see of the service's own. */
export function appVariables(app: App, sources: VariableSources): Record<string, string> {
  const { storageDir, secrets, environment, own } = sources;
  return {
    ...programPath(environment),
    APP_NAME: app.name,
    PROJECT_ID: app.projectId,
    ...own,
    HF_HOME: path.join(storageDir, ".cache", "huggingface"),
    ...secrets,
    // A place of the service's, not a value of the app's: volumes would show another folder than it writes.
    PERSISTENT_STORAGE: storageDir,
  };
}

/** Programs that its packages brought come before the host's. */
function programPath(environment: string | null): Record<string, string> {
  if (environment === null) return {};
  const { PATH = "" } = process.env;
  return { VIRTUAL_ENV: environment, PATH: [path.join(environment, "bin"), PATH].join(path.delimiter) };
}
