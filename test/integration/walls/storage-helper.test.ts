import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { expect } from "vitest";
import { BEGIN_MS, HELPER_IDLE_MS } from "../../../src/engines/programs/storage-helper.ts";
import { below } from "../../../src/host/processes.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { processesIn } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import { PROJECT, openVolumes } from "../../support/walls/kept-storage.ts";
import { verifies } from "../../verifies.ts";

/** The processes of a user that this test has started, the oldest first. */
function processesOf(user: number | null): number[] {
  const { living } = below(process.pid);
  return [...living].filter((pid) => statusOf(pid).includes(`\nUid:\t${user}\t`)).toSorted((a, b) => a - b);
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return ""; // It has just ended.
  }
}

verifies(
  "walls.storage",
  "one process of the project works on its storage, a fork for each operation, until it was idle for a while",
  async (context) => {
    const clock = new HeldClock();
    const { volumes, folder, user, give } = await openVolumes("the project", context, clock);
    writeFileSync(path.join(folder, "file"), "mine");
    give();
    await volumes.list(PROJECT, "/");
    await until("the operation's process ends", () => processesOf(user).length === 1);
    const [kept] = processesOf(user);
    const names = await Promise.all(Array.from({ length: 8 }, () => volumes.list(PROJECT, "/")));
    expect(names.map((found) => found.map(({ name }) => name))).toEqual(names.map(() => ["file"]));
    await until("those of the others end", () => processesOf(user).length === 1);
    expect(processesOf(user)).toEqual([kept]);
    await until("it ends too", () => {
      clock.skip(HELPER_IDLE_MS);
      return processesOf(user).length === 0;
    });
    expect((await volumes.list(PROJECT, "/")).map(({ name }) => name)).toEqual(["file"]);
  },
);

verifies(
  "walls.storage",
  "a helper that is killed fails the operations that have begun, and the next one gets another",
  async (context) => {
    const { volumes, helper, user } = await openVolumes("the project", context);
    const id = await volumes.begin(PROJECT, "large", 1);
    const etag = await volumes.put(id, 1, Readable.from([Buffer.alloc(8 * 1024 * 1024, 1)]));
    const tags = [{ partNumber: 1, etag }];
    await volumes.complete(PROJECT, { uploadId: id, filePath: "large", tags });
    const stream = await helper?.stream(PROJECT, { operation: "archive" });
    for (const pid of processesOf(user)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The end of the first process of a namespace ends the others.
      }
    }
    // Fewer bytes than it promised: the reader of an archive and of a file both see that.
    let bytes = 0;
    for await (const piece of stream?.rest ?? []) bytes += (piece as Buffer).length;
    expect(bytes).toBeLessThan(8 * 1024 * 1024);
    expect((await volumes.list(PROJECT, "/")).map(({ name }) => name)).toEqual(["large"]);
  },
);

verifies("walls.storage", "a process that is killed fails its own operation alone", async (context) => {
  const { volumes, helper, folder, user, give } = await openVolumes("the project", context);
  writeFileSync(path.join(folder, "file"), Buffer.alloc(4 * 1024 * 1024));
  give();
  await volumes.list(PROJECT, "/");
  await until("the operation's process ends", () => processesOf(user).length === 1);
  const [kept] = processesOf(user);
  const stream = await helper?.stream(PROJECT, { operation: "archive" });
  const own = processesOf(user).filter((pid) => pid !== kept);
  expect(own).toHaveLength(1);
  for (const pid of own) process.kill(pid, "SIGKILL");
  stream?.end();
  await volumes.list(PROJECT, "/");
  await until("its end is seen", () => stream?.rest.destroyed === true);
  expect(processesOf(user)[0]).toBe(kept);
});

verifies(
  "walls.storage",
  "a helper that stops before it has connected is replaced, and nothing of it is left",
  async (context) => {
    const clock = new HeldClock();
    const { volumes, dataDir } = await openVolumes("the project", context, clock);
    const listed = volumes.list(PROJECT, "/");
    await until("its agent is there", () => processesIn(dataDir).length > 0);
    const [agent] = processesIn(dataDir);
    process.kill(agent?.pid ?? 0, "SIGSTOP");
    clock.skip(BEGIN_MS);
    expect(await listed).toEqual([]);
    await until("the first has ended", () => processesIn(dataDir).every(({ pid }) => pid !== agent?.pid));
  },
);

verifies(
  "walls.storage",
  "no helper starts after a stop, whose operations are refused that have not begun",
  async (context) => {
    const { volumes, dataDir } = await openVolumes("the project", context);
    const begun = Promise.allSettled([0, 1, 2].map(() => volumes.list(PROJECT, "/")));
    await until("its agent is there", () => processesIn(dataDir).length > 0);
    await volumes.stop();
    await begun;
    await expect(volumes.list(PROJECT, "/")).rejects.toMatchObject({ code: "draining" });
    expect(processesIn(dataDir)).toEqual([]);
    expect(readdirSync(path.join(dataDir, "scratch"))).toEqual([]);
  },
);
