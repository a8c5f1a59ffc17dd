import { cpSync, renameSync, rmSync, truncateSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { flipPage, leafPages } from "../../support/flip-page.ts";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, Site, ended, submit } from "../async/site.ts";

const APP = { main: "def run(n=0, pad=''):\n    return [n, pad]\n", toml: "[scaling]\nmax_replicas = 1\n" };
const PADDING = "x".repeat(3_000);
const FLAGS = { flags: WITHOUT_WALLS };

/** A service that spends no time on records that it cannot store when it stops. */
async function started(site: Site): Promise<{ readonly test: TestService; readonly clock: SkippingClock }> {
  const clock = new SkippingClock();
  const test = await site.start({ ...FLAGS, clock });
  onTestFinished(async () => {
    let isStopped = false;
    const stopping = test.service.stop().finally(() => (isStopped = true));
    await until("it has stopped", () => {
      clock.skip(1_000);
      return isStopped;
    });
    await stopping;
  });
  return { test, clock };
}

/** Waits for what `/readyz` says, while the time passes in which the service looks. */
async function untilReadiness(test: TestService, clock: SkippingClock, status: RegExp): Promise<void> {
  await until(`/readyz says ${status}`, async () => {
    clock.skip(1_000);
    return status.test((await readiness(test))[1]["status"] ?? "");
  });
}

/** Some runs, so that the tables have several pages; gives the id of the first. */
async function fill(test: TestService): Promise<string> {
  const first = await submit(test, "app", { n: 0, pad: PADDING });
  for (let n = 1; n < 12; n++) await submit(test, "app", { n, pad: PADDING });
  await ended(test, "app", first);
  return first;
}

async function readiness({ service }: TestService, query = ""): Promise<[number, Record<string, string>]> {
  const answer = await fetch(`${service.baseUrl}/readyz${query}`);
  return [answer.status, (await answer.json()) as Record<string, string>];
}

/** Nothing new is accepted, everybody is told what to do, and sync calls go on. */
async function expectRefusal(test: TestService, cause: RegExp): Promise<void> {
  for (const headers of [{}, { "idempotency-key": "one" }]) {
    const { status, json } = await test.call("app", { n: 1 }, { ...ASYNC, headers });
    expect([status, json.code]).toEqual([503, "storage_unavailable"]);
    expect(json.message).toMatch(cause);
    expect(json.message).toContain("`millrace restore`");
    expect(json.message).not.toContain(test.settings.dataDir);
  }
  const [status, body] = await readiness(test);
  expect([status, Object.keys(body)]).toEqual([503, ["status"]]);
  expect(body["status"]).toMatch(cause);
  expect(body["status"]).toContain("`millrace restore`");
  const [, verbose] = await readiness(test, "?verbose");
  expect(verbose["storageFault"]).toContain(`millrace restore FILE --data-dir ${test.settings.dataDir}`);
  expect((await test.call("app", { n: 5 })).json.result).toEqual([5, ""]);
}

verifies(
  "storage.damaged.start",
  "a service that starts on a damaged database accepts nothing, and says how to restore a backup",
  async () => {
    const site = new Site({ app: APP });
    const first = await site.start(FLAGS);
    await fill(first);
    await first.service.stop();
    const file = path.join(site.dataDir, "millrace.db");
    flipPage(file, leafPages(file, "payloads").at(-1)!);
    await expectRefusal((await started(site)).test, /is damaged/);
  },
);

verifies(
  "storage.damaged.found",
  "damage that a read comes across makes the service refuse what is new from then on",
  async () => {
    const site = new Site({ app: APP });
    const first = await site.start(FLAGS);
    const id = await fill(first);
    await first.service.stop();
    const { test: second } = await started(site);
    expect(await readiness(second)).toEqual([200, { status: "ok" }]);
    const file = path.join(site.dataDir, "millrace.db");
    for (const page of leafPages(file, "payloads")) flipPage(file, page);
    const { status, json } = await second.ofRun("app", id, "result");
    expect([status, json.code]).toEqual([503, "storage_unavailable"]);
    expect(json.message).toContain("`millrace restore`");
    await expectRefusal(second, /is damaged/);
  },
);

verifies(
  "storage.damaged.start",
  "a database that cannot be opened keeps the service from starting, which says how to restore a backup",
  async () => {
    const site = new Site({ app: APP });
    const { service } = await site.start(FLAGS);
    await service.stop();
    flipPage(path.join(site.dataDir, "millrace.db"), 1);
    await expect(site.start(FLAGS)).rejects.toThrow(
      `millrace.db is damaged: SQLite: file is not a database (code 26). To restore a backup: stop the service, move ${site.dataDir} away, run "millrace restore FILE --data-dir ${site.dataDir}"`,
    );
  },
);

const LOSSES: Record<string, (dataDir: string) => void> = {
  removed: (dataDir) => rmSync(dataDir, { recursive: true }),
  "replaced by a copy": (dataDir) => {
    cpSync(dataDir, `${dataDir}-copy`, { recursive: true });
    renameSync(dataDir, `${dataDir}-old`);
    renameSync(`${dataDir}-copy`, dataDir);
  },
  "without its write-ahead log": (dataDir) => rmSync(path.join(dataDir, "millrace.db-wal")),
  "without its database": (dataDir) => rmSync(path.join(dataDir, "millrace.db")),
  "with a database cut to nothing": (dataDir) => truncateSync(path.join(dataDir, "millrace.db")),
};

for (const [how, lose] of Object.entries(LOSSES)) {
  verifies("storage.lost", `no run is accepted into a data directory that is ${how}`, async () => {
    const site = new Site({ app: APP });
    const { test, clock } = await started(site);
    await fill(test);
    lose(site.dataDir);
    // At once: a write is answered only when it is in the files at their path.
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => test.call("app", { n }, ASYNC)));
    expect(answers.filter(({ status }) => status !== 503)).toEqual([]);
    await untilReadiness(test, clock, /unmounted/);
    await expectRefusal(test, /removed, replaced or unmounted/);
  });
}

verifies("storage.lost", "a data directory that is put back is used again", async () => {
  const site = new Site({ app: APP });
  const { test, clock } = await started(site);
  const id = await fill(test);
  renameSync(site.dataDir, `${site.dataDir}-away`);
  expect((await test.call("app", { n: 1 }, ASYNC)).status).toBe(503);
  await untilReadiness(test, clock, /unmounted/);
  renameSync(`${site.dataDir}-away`, site.dataDir);
  await untilReadiness(test, clock, /^ok$/);
  const next = await submit(test, "app", { n: 2 });
  expect((await ended(test, "app", next)).status).toBe("success");
  expect((await test.ofRun("app", id, "result")).json.result).toEqual([0, PADDING]);
});
