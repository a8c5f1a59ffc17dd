import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { threadScript } from "../../config/package-files.ts";
import type { Backend } from "../operation.ts";
import { operationNamed } from "../operations.ts";
import { ThreadClient } from "./thread-client.ts";

/** Opens `millrace.db` in the data directory, with a thread that writes and a thread that reads. */
export async function openSqlite(dataDir: string): Promise<Backend> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "millrace.db");
  const script = threadScript("store/sqlite/thread");
  const writer = new ThreadClient(script, { mode: "write", path });
  const reader = new ThreadClient(script, { mode: "read", path });
  try {
    await writer.open();
    // After the writer, which makes the file and its tables.
    await reader.open();
  } catch (error) {
    await Promise.all([reader.terminate(), writer.terminate()]);
    throw error;
  }
  return {
    run: (name, packed) => {
      const { mode, movedWith } = operationNamed(name);
      return (mode === "read" ? reader : writer).call(name, packed, movedWith(packed as never));
    },
    close: async () => {
      await reader.close();
      // The last connection to close folds the log into the database, and only the writer may.
      await writer.close();
    },
  };
}
