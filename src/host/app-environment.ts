import path from "node:path";
import type { AppPython } from "./app-python.ts";

/** The variables of the service that a replica may see: none that could hold a key, token or database address. */
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
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
] as const;

export type AppFolders = { readonly storage: string; readonly environment: string | null };

/** Adds the variables that name folders of this machine. */
export function withFolders(
  variables: Readonly<Record<string, string>>,
  { storage, environment }: AppFolders,
  { path: first }: Pick<AppPython, "path">,
): Record<string, string> {
  return {
    // Its Python and programs of its packages come before the host's.
    PATH: [...first, process.env["PATH"] || []].flat().join(path.delimiter),
    ...(environment !== null && { VIRTUAL_ENV: environment }),
    HF_HOME: path.join(storage, ".cache", "huggingface"),
    ...variables,
    // Not for the app to change: volumes would show another folder than it writes.
    PERSISTENT_STORAGE: storage,
  };
}

/** No process of an app uses a GPU that it was not granted. */
export const NO_GPU_VARIABLES = { CUDA_VISIBLE_DEVICES: "" } as const;

/** The variables of a process of an app, without a GPU whatever the host or the app says. */
export function appEnvironment(host: NodeJS.ProcessEnv, app: Readonly<Record<string, string>>) {
  const environment: Record<string, string> = { LANG: "C.UTF-8", PYTHONUNBUFFERED: "1" };
  for (const name of ALLOWED) {
    const value = host[name];
    if (value !== undefined) environment[name] = value;
  }
  return { ...environment, ...app, ...NO_GPU_VARIABLES };
}
