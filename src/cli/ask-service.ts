import { request } from "../kit/node-http.ts";
import { findRuntimeDir, runtimeDir } from "../kit/runtime-dir.ts";
import { KEY_HEADER, SILENCE_MS, controlKey, controlSocketPath } from "../management/control-socket.ts";
import type { ControlRequests } from "../management/control-socket.ts";

/** A service has the data directory and says nothing. */
export class SilentServiceError extends Error {
  constructor(dataDir: string) {
    super(`the service on ${dataDir} does not answer: it hangs, or is stopped`);
    this.name = "SilentServiceError";
  }
}

/**
 * Asks the service that runs on a data directory; null when none does. Waits as long as the service gives a sign of
 * life, and throws `SilentServiceError` when it gives none.
 */
export async function askService(
  dataDir: string,
  name: keyof ControlRequests,
  input: object = {},
  silenceMs: number = SILENCE_MS,
): Promise<{ readonly result: unknown } | null> {
  const folder = runtimeDir(dataDir);
  if (!findRuntimeDir(folder)) return null;
  const socketPath = controlSocketPath(folder);
  const headers = { [KEY_HEADER]: controlKey(folder) };
  return await new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: `/${name}`, method: "POST", headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => (text += part));
      response.on("error", reject);
      response.on("end", () => {
        const result: unknown = JSON.parse(text);
        if (response.statusCode === 200) resolve({ result });
        else reject(new Error(`the service could not do that: ${(result as { message: string }).message}`));
      });
    });
    asked.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ECONNREFUSED") resolve(null);
      else reject(error);
    });
    asked.setTimeout(silenceMs, () => asked.destroy(new SilentServiceError(dataDir)));
    asked.end(JSON.stringify(input));
  });
}
