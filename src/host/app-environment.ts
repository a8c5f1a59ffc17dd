import path from "node:path";
import type { AppPython } from "./app-python.ts";

/**
 * What a replica may see of the service's own environment: where programs are, which language, time zone and
 * devices. Nothing else, so that no key, token or database address of the service reaches an app.
 */
export const ALLOWED = [
  "PATH",
  "HOME",
  "LANG",
  "LANGUAGE",
  "LC_ALL",
  "LC_CTYPE",
  "TZ",
  "TMPDIR",
  "LD_LIBRARY_PATH",
  "CUDA_VISIBLE_DEVICES",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
] as const;

/** Folders of this machine that an app's processes are told of. */
export type AppFolders = {
  /** The project's persistent storage. */
  readonly storage: string;
  /** Its installed packages; null when there are none. */
  readonly environment: string | null;
};

/** An app's variables, with those that name folders of this machine. */
export function withFolders(
  variables: Readonly<Record<string, string>>,
  { storage, environment }: AppFolders,
  { path: first }: Pick<AppPython, "path">,
): Record<string, string> {
  return {
    // Its Python, and programs that its packages brought, come before the host's.
    PATH: [...first, process.env["PATH"] || []].flat().join(path.delimiter),
    ...(environment !== null && { VIRTUAL_ENV: environment }),
    HF_HOME: path.join(storage, ".cache", "huggingface"),
    ...variables,
    // A place of the service's, not a value of the app's: volumes would show another folder than it writes.
    PERSISTENT_STORAGE: storage,
  };
}

/** The environment of an app's processes. */
export function appEnvironment(
  host: NodeJS.ProcessEnv,
  app: Readonly<Record<string, string>>,
): Record<string, string> {
  const environment: Record<string, string> = { LANG: "C.UTF-8", PYTHONUNBUFFERED: "1" };
  for (const name of ALLOWED) {
    const value = host[name];
    if (value !== undefined) environment[name] = value;
  }
  return { ...environment, ...app };
}
