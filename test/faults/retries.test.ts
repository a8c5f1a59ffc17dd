import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory, testProgram } from "../support/command-line.ts";
import { DATABASE_KINDS, testDatabases, triedKinds } from "../support/databases.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { type FoundRun, KillableService } from "../support/killable-service.ts";
import { endLeases } from "../support/leases.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { ServiceClock } from "../support/service-clock.ts";
import { until } from "../support/until.ts";
import { WebhookTarget } from "../support/webhook-target.ts";
import { verifies } from "../verifies.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** Each attempt notes itself; all but the last ones fail. */
const MAIN = `
import os
import millrace

def run(fails, run_id):
    attempt = millrace.run.attempt
    tries = os.open(os.path.join(os.environ["PERSISTENT_STORAGE"], "tries"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(tries, ("%s %d\\n" % (run_id, attempt)).encode())
    os.close(tries)
    if attempt <= fails:
        raise ConnectionError("attempt %d" % attempt)
    return attempt
`;
const app = (delay: string) => ({
  main: MAIN,
  toml: `[scaling]\nmax_replicas = 2\n[retry]\non = ["ConnectionError"]\nmax_attempts = 4\ninitial_delay = ${delay}\nbackoff = 1\njitter = 0\n`,
});
const ENV = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
const FAILS = 2;

/** The attempts of each run, as its app saw them. */
function tries(...services: readonly Pick<KillableService, "storageDir">[]): Map<string, number[]> {
  const seen = new Map<string, number[]>();
  for (const { storageDir } of services) {
    const file = path.join(storageDir, "tries");
    if (!existsSync(file)) continue;
    for (const line of readFileSync(file, "utf8").trim().split("\n")) {
      const [id = "", attempt] = line.split(" ");
      seen.set(id, [...(seen.get(id) ?? []), Number(attempt)]);
    }
  }
  return seen;
}

async function accept(service: KillableService, fails = FAILS, query = ""): Promise<string> {
  const { status, json } = await service.post({ fails }, { query: `?async=true${query}` });
  expect(status).toBe(202);
  return json.run_id as string;
}

/** The run's record once it waits for that attempt. */
async function waiting(service: KillableService, id: string, attempt = 2): Promise<FoundRun> {
  let found: FoundRun | null = null;
  await until(`${id} waits for attempt ${attempt}`, async () => {
    found = await service.find(id);
    return found?.dueAt !== undefined && found.attempt === attempt;
  });
  return found!;
}

/** Every attempt is there once, in order, and the run ended with the last one. */
function expectWhole(run: FoundRun, fails = FAILS): void {
  const numbers = Array.from({ length: fails + 1 }, (_, i) => i + 1);
  expect(run).toMatchObject({ status: "success", attempt: fails + 1, result: fails + 1 });
  expect((run.attempts ?? []).map(({ number, error }) => [number, error?.message ?? null])).toEqual(
    (fails === 0 ? [] : numbers).map((number) => [
      number,
      number > fails ? null : `ConnectionError: attempt ${number}`,
    ]),
  );
}

const databases = testDatabases();
const SCRIPT = testProgram("kill-point");
const POINTS = ["claims.release", "claims.makeDue", "claims.claim", "claims.finish"] as const;
const MOMENTS =
  FAULT_LENGTH === "full" ? (["before", "amid", "after"] as const) : (["amid", "after"] as const);

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["retry.durable", "retry.attempts"],
    `a service that dies between the attempts of runs loses none, repeats no ended one and keeps their numbers, on ${kind}`,
    async () => {
      const target = await WebhookTarget.open();
      const service = await KillableService.deploy(await databases.fresh(kind), app("0.2"), ENV);
      const hook = `&webhookEndpoint=${encodeURIComponent(`${target.url}/hook`)}`;
      const ids: string[] = [];
      let kills = 0;
      for (const point of FAULT_LENGTH === "minimal" ? POINTS.slice(0, 2) : POINTS) {
        for (const moment of FAULT_LENGTH === "minimal" ? (["after"] as const) : MOMENTS) {
          expect(await service.start([process.execPath, SCRIPT, point, moment])).toBe(true);
          process.kill(service.command.pid, "SIGUSR2");
          await service.command.printed(/^armed$/m);
          const calls = Array.from({ length: 3 }, () => accept(service, FAILS, hook).catch(() => null));
          ids.push(...(await Promise.all(calls)).filter((id) => id !== null));
          expect(await service.command.exited).toBe("SIGKILL");
          kills += 1;
          await endLeases(service.database);
        }
      }
      expect(await service.start()).toBe(true);
      expect(ids.length).toBeGreaterThan(kills);
      for (const id of ids) expectWhole(await service.ended(id));
      for (const id of ids)
        await until(
          "its webhook was delivered",
          async () => (await service.find(id))?.webhookStatus === "delivered",
        );
      await service.stop();
      const seen = tries(service);
      for (const id of ids) expect([...new Set(seen.get(id))]).toEqual([1, 2, 3]);
      // Only what ran when the service died runs again: at most two at a time.
      const repeated = ids.reduce((sum, id) => sum + (seen.get(id)?.length ?? 0) - (FAILS + 1), 0);
      expect(repeated).toBeLessThanOrEqual(3 * kills);
      for (const id of ids) {
        const calls = target.received.filter(({ headers }) => headers["webhook-id"] === id);
        const bodies = new Set(calls.map(({ body }) => body.toString()));
        expect([id, [...bodies].map((body) => JSON.parse(body).result)]).toEqual([id, [FAILS + 1]]);
      }
    },
    FAULT_LENGTH === "full" ? 900_000 : undefined,
  );
}

for (const kind of DATABASE_KINDS) {
  verifies(
    "retry.durable",
    `neither a kill nor a date that is set makes a wait shorter or begin anew, on ${kind}`,
    async () => {
      const service = await KillableService.deploy(await databases.fresh(kind), app('"1h"'), ENV);
      const clock = new ServiceClock(service);
      expect(await clock.start()).toBe(true);
      const id = await accept(service);
      const { dueAt } = await waiting(service, id);
      for (const aheadMs of [HOUR_MS, -HOUR_MS, 24 * HOUR_MS]) {
        await clock.setAhead(aheadMs);
        expectWhole(await service.ended(await accept(service, 0)), 0);
        expect(await service.find(id)).toMatchObject({ status: "queued", dueAt });
      }
      await service.kill();
      await endLeases(service.database);
      expect(await clock.start()).toBe(true);
      expect(await service.find(id)).toMatchObject({ status: "queued", attempt: 2, dueAt });
      await clock.skip(HOUR_MS - 5 * MINUTE_MS);
      expectWhole(await service.ended(await accept(service, 0)), 0);
      expect(await service.find(id)).toMatchObject({ status: "queued", attempt: 2, dueAt });
      await clock.skip(5 * MINUTE_MS);
      await waiting(service, id, 3);
      await clock.skip(HOUR_MS);
      expectWhole(await service.ended(id));
      await service.stop();
      expect(tries(service).get(id)).toEqual([1, 2, 3]);
    },
  );
}

test("of two services the one that lives goes on with what the other delayed, whatever befalls Postgres", async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const database = { databaseUrl: postgres.url, dataDir: scratchDirectory() };
  const first = await KillableService.deploy(database, app('"1h"'), ENV);
  const second = await first.sibling(scratchDirectory());
  const clocks = [new ServiceClock(first), new ServiceClock(second)] as const;
  expect(await clocks[0].start()).toBe(true);
  const ids = await Promise.all(Array.from({ length: 20 }, () => accept(first)));
  for (const id of ids) await waiting(first, id);
  expect(await clocks[1].start()).toBe(true);
  await first.kill();
  await postgres.end("KILL");
  expect(await postgres.start()).toBe(true);
  await endLeases(first.database);
  for (const id of ids) expect(await second.find(id)).toMatchObject({ status: "queued", attempt: 2 });
  await clocks[1].skip(HOUR_MS);
  for (const id of ids) await waiting(second, id, 3);
  // Both make them due at once, and Postgres is cut off meanwhile.
  expect(await clocks[0].start()).toBe(true);
  const moved = Promise.all([clocks[0].skip(2 * HOUR_MS), clocks[1].skip(HOUR_MS)]);
  await postgres.end("INT");
  expect(await postgres.start()).toBe(true);
  await moved;
  for (const id of ids) expectWhole(await second.ended(id));
  const seen = tries(first, second);
  for (const id of ids) expect([...new Set(seen.get(id))]).toEqual([1, 2, 3]);
  await Promise.all([first.stop(), second.stop()]);
});

test("a service that stood still past its lease, with runs that wait and one that just failed, ends none twice", async () => {
  const first = await KillableService.deploy(await databases.fresh("postgres"), app('"1h"'), ENV);
  const second = await first.sibling((await databases.fresh("sqlite")).dataDir);
  const clocks = [new ServiceClock(first), new ServiceClock(second)] as const;
  expect(await clocks[0].start()).toBe(true);
  const ids = await Promise.all(Array.from({ length: 10 }, () => accept(first)));
  for (const id of ids) await waiting(first, id);
  expect(await clocks[1].start()).toBe(true);
  process.kill(first.command.pid, "SIGSTOP");
  await endLeases(first.database);
  await clocks[1].skip(HOUR_MS);
  for (const id of ids) await waiting(second, id, 3);
  process.kill(first.command.pid, "SIGCONT");
  await Promise.all([clocks[0].skip(2 * HOUR_MS), clocks[1].skip(HOUR_MS)]);
  for (const id of ids) expectWhole(await second.ended(id));
  const seen = tries(first, second);
  for (const id of ids) expect(seen.get(id)?.toSorted()).toEqual([1, 2, 3]);
  await Promise.all([first.stop(), second.stop()]);
});
