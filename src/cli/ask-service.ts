import { connect, type Socket } from "node:net";
import type { Settings } from "../config/setting-keys.ts";
import type { OperatorRequests } from "../identity/identity-parts.ts";
import { request } from "../kit/node-http.ts";
import { findRuntimeDir, runtimeDir } from "../kit/runtime-dir.ts";
import { controlKey, controlSocketPath, KEY_HEADER, SILENCE_MS } from "../management/control-socket.ts";
import type { ControlRequests } from "../management/control-socket.ts";

/** A service has the data directory and does not answer. */
export class SilentServiceError extends Error {
  constructor(dataDir: string) {
    super(`the service on ${dataDir} does not answer: it hangs, or is stopped`);
    this.name = "SilentServiceError";
  }
}

/** Asks the service on a data directory; null if none runs. Throws `SilentServiceError` when its heartbeats stop. */
export async function askService(
  dataDir: string,
  name: keyof ControlRequests,
  input: object = {},
  silenceMs: number = SILENCE_MS,
): Promise<{ readonly result: unknown } | null> {
  const folder = runtimeDir(dataDir);
  if (!findRuntimeDir(folder)) return null;
  const socket = await connectTo(controlSocketPath(folder));
  if (!socket) return null;
  // Not before: a service that has just started writes its key before it listens.
  const headers = { [KEY_HEADER]: controlKey(folder) };
  const options = { createConnection: () => socket, path: `/${name}`, method: "POST", headers };
  return await new Promise((resolve, reject) => {
    const asked = request(options, (response) => {
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
    asked.on("error", reject);
    asked.setTimeout(silenceMs, () => asked.destroy(new SilentServiceError(dataDir)));
    asked.end(JSON.stringify(input));
  });
}

/** Null if nothing listens. */
async function connectTo(socketPath: string): Promise<Socket | null> {
  return await new Promise((resolve, reject) => {
    const socket = connect(socketPath, () => resolve(socket));
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ECONNREFUSED") resolve(null);
      else reject(error);
    });
  });
}

/** Asks the service, or the data directory itself when none runs on it. */
export async function askOperator<Name extends keyof OperatorRequests>(
  settings: Settings,
  name: Name,
  input: object = {},
): Promise<Awaited<ReturnType<OperatorRequests[Name]>>> {
  type Answer = Awaited<ReturnType<OperatorRequests[Name]>>;
  const asked = await askService(settings.dataDir, name, input);
  if (asked) return asked.result as Answer;
  // Loaded only now: with a service up the answer comes without the service's own code.
  const { askInstallation } = await import("../main.ts");
  return await askInstallation(
    settings,
    async (requests) => (await requests[name](input as never)) as Answer,
  );
}
