import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { threadScript } from "../../config/package-files.ts";
import { systemClock, threadsMs } from "../../kit/clock.ts";
import { LazyResource } from "../../kit/lifecycle.ts";
import { PROBE_BYTES } from "../meta.ts";
import { lostStorage } from "../upkeep/storage-fault.ts";
import { type Backend, HEAVY_READ_MS } from "../operation.ts";
import { operationNamed } from "../operations.ts";
import { identify } from "./connection.ts";
import { SqliteFile } from "./database-file.ts";
import { ThreadClient } from "./thread-client.ts";

/** A thread takes some 15 MB, and as many milliseconds to start. */
const HEAVY_IDLE_MS = 20_000;

/** Opens `millrace.db` with one thread for writes and one for reads; another for heavy reads runs only when needed. */
export async function openSqlite(dataDir: string): Promise<Backend> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "millrace.db");
  const script = threadScript("store/sqlite/thread");
  const onDamage = (problem: string): void => file?.noteDamage(problem);
  const writer = new ThreadClient(script, { mode: "write", path }, onDamage);
  const reader = new ThreadClient(script, { mode: "read", path }, onDamage);
  let file: SqliteFile | null = null;
  let another: () => ThreadClient;
  try {
    await writer.open();
    // After the writer, which creates the file and its tables.
    await reader.open();
    const identity = identify(path);
    if (!identity) throw lostStorage();
    for (const thread of [writer, reader]) thread.pin(identity);
    another = () => new ThreadClient(script, { mode: "read", path, identity }, onDamage);
    file = new SqliteFile(path, identity, another);
  } catch (error) {
    await Promise.all([reader.terminate(), writer.terminate()]);
    throw error;
  }
  const heavyReader = new LazyResource({
    clock: systemClock,
    idleMs: HEAVY_IDLE_MS,
    open: another,
    close: (client) => client.close(),
  });
  return {
    run: (name, packed) => {
      const { mode, isHeavy, movedWith } = operationNamed(name);
      if (mode !== "read") return writer.call(name, packed, { moved: movedWith(packed as never) });
      if (!isHeavy(packed as never)) return reader.call(name, packed);
      const deadlineMs = threadsMs() + HEAVY_READ_MS;
      return heavyReader.use((client) => client.call(name, packed, { deadlineMs }));
    },
    // Queued behind all earlier calls of that thread: its reply means that they were answered.
    probe: (lane) =>
      (lane === "read"
        ? reader.call("meta.get", "instance_id")
        : writer.call("meta.prove", PROBE_BYTES)
      ).catch(() => {}),
    // A thread that waits for its disk cannot be interrupted, and continues once the disk answers.
    abandon: () => {},
    file,
    close: async () => {
      await Promise.all([reader.close(), heavyReader.close(), file.close()]);
      // The last connection to close checkpoints the log, which only the writer may do.
      await writer.close();
      await file.release();
    },
  };
}

/** Opens the `millrace.db` of a data directory that no service uses, only for reading. */
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
        throw new Error(`${name} would change a database that is open for reading only`);
      return await reader.call(name, packed);
    },
    probe: () => reader.call("meta.get", "instance_id").catch(() => {}),
    abandon: () => {},
    close: () => reader.close(),
  };
}
