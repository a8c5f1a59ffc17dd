import { request } from "node:http";
import { hasRuntimeDir, runtimeDir } from "../kit/runtime-dir.ts";
import { controlSocketPath } from "../management/control-socket.ts";
import type { ControlRequests } from "../management/control-socket.ts";

/** Asks the service that runs on a data directory; null when none does. */
export async function askService(
  dataDir: string,
  name: keyof ControlRequests,
  input: object = {},
): Promise<{ readonly result: unknown } | null> {
  const folder = runtimeDir(dataDir);
  if (!hasRuntimeDir(folder)) return null;
  const socketPath = controlSocketPath(folder);
  return await new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: `/${name}`, method: "POST" }, (response) => {
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
    asked.end(JSON.stringify(input));
  });
}
