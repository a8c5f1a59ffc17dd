import { join } from "node:path";
import { threadScript } from "../../config/package-files.ts";
import type { Backend } from "../operation.ts";
import { operationNamed } from "../operations.ts";
import { ThreadClient } from "./thread-client.ts";

/** Opens the `millrace.db` of a data directory that no service has, to read it as it is. */
export async function lookAtSqlite(dataDir: string): Promise<Backend> {
  const path = join(dataDir, "millrace.db");
  const reader = new ThreadClient(threadScript("store/sqlite/thread"), { mode: "look", path });
  try {
    await reader.open();
  } catch (error) {
    await reader.terminate();
    throw error;
  }
  return {
    run: async (name, packed) => {
      if (operationNamed(name).mode !== "read")
        throw new Error(`${name} would change what is only looked at`);
      return await reader.call(name, packed);
    },
    probe: () => reader.call("meta.get", "instance_id").catch(() => {}),
    abandon: () => {},
    close: () => reader.close(),
  };
}
