import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { faultDice } from "../../support/dice.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { openStream, StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ended, submit } from "../async/site.ts";

/** Continues after what is stored; says in which process it is. */
const appIn = (folder: string): string => `
import os
import time
import millrace

def run(to):
    with open(os.path.join(${folder}, "pid"), "w") as file:
        file.write("%d " % os.getpid())
    if millrace.run.checkpoint is None:
        millrace.checkpoint(0)
    for n in range(millrace.run.sent + 1, to + 1):
        yield n
        if n % 10 == 0:
            millrace.checkpoint(n)
        if n % 3 == 0:
            time.sleep(0.001)
`;

const CHUNKS = 1_000;
const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const IS_ALONE = process.env["MILLRACE_FAULTS_ALONE"] === "true";
const SERVICE_KILLS = IS_FULL ? 15 : IS_ALONE ? 3 : 1;
const REPLICA_KILLS = IS_FULL ? 8 : IS_ALONE ? 4 : 2;
const RETRIES =
  '[scaling]\nmax_replicas = 1\n[retry]\non = ["crash"]\nmax_attempts = 100\ninitial_delay = 0\n';

const WHOLE = Array.from({ length: CHUNKS }, (_, i) => [i + 1, String(i + 1)]);

/** The chunks among messages, with their numbers. */
function chunksOf({ messages }: Pick<StreamReader, "messages">): (readonly [number, string])[] {
  return messages.filter(({ event }) => event === null).map(({ id, data }) => [Number(id), data]);
}

verifies(
  ["checkpoint.killed", "checkpoint.exactly-once"],
  `${CHUNKS} chunks of a generator whose replica is killed ${REPLICA_KILLS} times reach each reader once, in order`,
  async () => {
    const roll = faultDice();
    const app = { main: appIn('"."'), toml: RETRIES };
    const service = await testService({ app }, WITHOUT_WALLS);
    const id = await submit(service, "app", { to: CHUNKS });
    const reader = openStream(service, "app", {}, { functionName: `runs/${id}/events`, method: "GET" });
    for (let kill = 0; kill < REPLICA_KILLS; kill++) {
      const target = Math.floor(((kill + roll(1)) * CHUNKS) / (REPLICA_KILLS + 1));
      await until("it has come so far", () => chunksOf(reader).length >= target);
      const pid = Number(readFileSync(bundleFile(service, "app", "pid"), "utf8"));
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // The last one was killed just now, and the next has not begun.
      }
    }
    const run = await ended(service, "app", id);
    expect(run.status).toBe("success");
    await reader.ended();
    expect(chunksOf(reader)).toEqual(WHOLE);
    expect(run.result).toEqual(WHOLE.map(([n]) => n));
    expect(run.attempt).toBeGreaterThan(REPLICA_KILLS / 2);
    const after = Math.floor(roll(CHUNKS));
    const headers = { "last-event-id": String(after) };
    const late = openStream(
      service,
      "app",
      {},
      { functionName: `runs/${id}/events`, method: "GET", headers },
    );
    await late.ended();
    expect(chunksOf(late)).toEqual(WHOLE.slice(after));
  },
);

const databases = testDatabases();

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["checkpoint.killed", "checkpoint.stored-first"],
    `a reader that comes back after each of ${SERVICE_KILLS} kill -9 of the service on ${kind} gets each chunk once, in order`,
    async () => {
      const roll = faultDice();
      const main = appIn('os.environ["PERSISTENT_STORAGE"]');
      const service = await KillableService.deploy(await databases.fresh(kind), { main, toml: RETRIES });
      expect(await service.start()).toBe(true);
      const { json } = await service.post({ to: CHUNKS }, { query: "?async=true" });
      const id: string = json.run_id;
      const had: (readonly [number, string])[] = [];
      const read = (): StreamReader =>
        new StreamReader({
          url: `${service.appUrl}/runs/${id}/events`,
          token: service.token,
          body: "",
          method: "GET",
          headers: { "last-event-id": String(had.at(-1)?.[0] ?? 0) },
        });
      for (let kill = 0; kill < SERVICE_KILLS; kill++) {
        const reader = read();
        const target = Math.floor(((kill + roll(1)) * CHUNKS) / (SERVICE_KILLS + 1));
        await until("it has come so far", () => had.length + chunksOf(reader).length >= target);
        await service.kill();
        await until("the connection is closed", () => reader.isClosed);
        had.push(...chunksOf(reader));
        if (!IS_FULL) await endLeases(service.database);
        expect(await service.start()).toBe(true);
      }
      const reader = read();
      await reader.ended();
      had.push(...chunksOf(reader));
      expect(had).toEqual(WHOLE);
      const run = await service.ended(id);
      expect(run).toMatchObject({ status: "success", attempt: 1 });
      expect(run.result).toEqual(WHOLE.map(([n]) => n));
      await service.stop();
    },
    IS_FULL ? 600_000 : undefined,
  );
}
