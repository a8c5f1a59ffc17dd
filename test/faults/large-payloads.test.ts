import { utimes } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { DirectoryBlobs } from "../../src/blobs/directory-blobs.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { LARGE_BYTES, LargePayloads, openPayloadPlace } from "../../src/runs/large-payloads.ts";
import { openStore } from "../../src/store/store.ts";
import { testProgram } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { endLeases } from "../support/leases.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const LONG_AGO = new Date(Date.UTC(2020, 0, 1));
const ASYNC = { query: "?async=true" };

/** The hashes of all blobs, which are from now on as old as can be. */
async function agedBlobs(blobs: DirectoryBlobs): Promise<string[]> {
  const hashes: string[] = [];
  for await (const { hash } of blobs.list()) {
    hashes.push(hash);
    await utimes(path.join(blobs.place, "sha256", hash.slice(0, 2), hash), LONG_AGO, LONG_AGO);
  }
  return hashes;
}

verifies(
  "payloads.blob.killed",
  "a service that dies between a blob and its row has accepted nothing, and what it left is collected",
  async () => {
    const service = await KillableService.deploy(await databases.fresh("postgres"), {
      main: "def run(text):\n    return len(text)\n",
    });
    const { database, appNumber } = service;
    const blobs = await DirectoryBlobs.open(path.join(database.dataDir, "shared", "payloads"));
    const program = [process.execPath, testProgram("kill-point"), "runs.accept", "before"] as const;
    expect(await service.start(program)).toBe(true);
    process.kill(service.command.pid, "SIGUSR2");
    await service.command.printed(/^armed$/m);
    await expect(service.post({ text: "x".repeat(LARGE_BYTES) }, ASYNC)).rejects.toThrow("fetch failed");
    expect(await service.command.exited).toBe("SIGKILL");
    const lost = await agedBlobs(blobs);
    expect(lost).toHaveLength(1);
    expect(await service.withStore((store) => store.runs.count({ appNumber }))).toBe(0);

    await endLeases(database);
    expect(await service.start()).toBe(true);
    const { status, json } = await service.post({ text: "y".repeat(LARGE_BYTES) }, ASYNC);
    expect([status, (await service.ended(json.run_id)).result]).toEqual([202, LARGE_BYTES]);
    await service.stop();
    const kept = (await agedBlobs(blobs)).filter((hash) => !lost.includes(hash));
    expect(kept).toHaveLength(1);
    const store = await openStore(database);
    const place = await openPayloadPlace(blobs, store);
    const given = { blobs, place, store, clock: systemClock, log: createLog("silent") };
    const large = new LargePayloads({ ...given, isFirst: () => true });
    await large.collect();
    await store.close();
    expect(await agedBlobs(blobs)).toEqual(kept);
  },
);
