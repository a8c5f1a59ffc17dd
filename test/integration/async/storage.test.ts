import { execFileSync } from "node:child_process";
import { expect, onTestFinished } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { serve } from "../../support/command-line.ts";
import { type Answer, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, Site, ended, ledger, letGo, submit } from "./site.ts";

const told = ({ status, json, headers }: Answer): unknown[] => [
  status,
  json.code,
  headers.get("retry-after"),
];
const REFUSED = [503, "storage_unavailable", expect.stringMatching(/^[1-9]\d*$/)];

let isBroken = false;
const refuse = async <Result>(write: () => Promise<Result>): Promise<Result> => {
  if (isBroken) throw new AppError("storage_unavailable");
  return await write();
};
/** Set: ends of runs are written down when it resolves. */
let ending: Promise<void> | null = null;
let endings = 0;
const aroundStore = (store: Store): Store => ({
  ...store,
  runs: {
    ...store.runs,
    accept: (batch) => refuse(() => store.runs.accept(batch)),
    acceptKeyed: (keyed) => refuse(() => store.runs.acceptKeyed(keyed)),
  },
  claims: {
    ...store.claims,
    finish: async (batch) => {
      endings += batch.length;
      await ending;
      return await store.claims.finish(batch);
    },
  },
});
const service = sharedService({}, WITHOUT_WALLS, { aroundStore });

verifies(
  "async.storage",
  "a run that the store cannot commit is 503 with Retry-After, is never executed, and the next one is taken",
  async () => {
    const test = service();
    const app = await test.own({ main: MAIN, toml: ONE });
    isBroken = true;
    onTestFinished(() => void (isBroken = false));
    expect((await test.call(app, { n: "sync" })).status).toBe(200);
    for (let n = 0; n < 20; n++) expect(told(await test.call(app, { n }, ASYNC))).toEqual(REFUSED);
    const keyed = { ...ASYNC, headers: { "idempotency-key": "one" } };
    expect(told(await test.call(app, { n: "keyed" }, keyed))).toEqual(REFUSED);
    const keyedSync = { headers: { "idempotency-key": "two" } };
    expect(told(await test.call(app, { n: "keyed sync" }, keyedSync))).toEqual(REFUSED);
    isBroken = false;
    const first = await submit(test, app, { n: "after" });
    expect((await ended(test, app, first)).status).toBe("success");
    const second = await submit(test, app, { n: "keyed" }, keyed);
    expect((await ended(test, app, second)).status).toBe("success");
    expect(ledger(test, app)).toEqual(["sync", "after", "keyed"]);
  },
);

verifies(
  "runs.events",
  "a reader who comes while the end of a plain run is written down sees it when it is",
  async () => {
    const test = service();
    const { promise, resolve } = Promise.withResolvers<void>();
    ending = promise;
    onTestFinished(() => {
      resolve();
      ending = null;
    });
    const app = await test.own({ main: MAIN, toml: ONE });
    const before = endings;
    const id = await submit(test, app, { n: 7 });
    await until("its end is being written", () => endings > before);
    const reader = openEvents(test, app, id, null);
    await reader.hasMessages(1);
    expect(reader.messages.map(({ data }) => data)).toEqual(["7"]);
    resolve();
    expect((await reader.ended()).end).toMatchObject({ id: 2, record: { status: "success" } });
  },
);

verifies(
  "async.storage",
  "on a disk that is full no 202 is given; with room again the same service takes runs",
  async () => {
    const site = new Site({ app: { main: MAIN, toml: ONE } });
    const first = await site.start();
    const { owner } = first.service;
    await first.service.stop();
    const served = await serve(site.dataDir, { MILLRACE_ISOLATION: "none" });
    const call = async (body: object, query = "?async=true"): Promise<number> => {
      const { status } = await fetch(`${served.apiUrl}/v4/${owner.projectId}/app/run${query}`, {
        method: "POST",
        headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return status;
    };
    // Its replica is up before the limit: that is the service's alone.
    expect(await call({ n: "before" }, "")).toBe(200);
    const { pid } = served.command;
    const limitFileSize = (bytes: number | "unlimited"): void =>
      void execFileSync("prlimit", [`--pid=${pid}`, `--fsize=${bytes}:unlimited`]);
    limitFileSize(500_000);
    const padding = "x".repeat(100_000);
    const statuses = new Set<number>();
    let accepted = 1;
    for (let n = 0; n < 20; n++) {
      const status = await call({ n: `${n}${padding}` });
      statuses.add(status);
      if (status === 202) accepted += 1;
    }
    expect([...statuses]).toContain(503);
    expect([...statuses].filter((status) => status !== 202 && status !== 503)).toEqual([]);
    limitFileSize("unlimited");
    expect(await call({ n: "after" })).toBe(202);
    await until("all that was accepted has run", () => ledger(first, "app").length === accepted + 1);
    expect(ledger(first, "app").at(-1)).toBe("after");
    expect(await served.command.interrupt()).toBe(0);
  },
);

verifies(
  "async.disk-reserve",
  "runs are accepted beyond max_queue, and refused while the disk has less room than its reserve",
  async () => {
    const test = service();
    const app = await test.own({ main: MAIN, toml: `${ONE}max_queue = 1\n` });
    const held = await submit(test, app, { n: "held" }, { functionName: "hold" });
    for (let n = 0; n < 30; n++) await submit(test, app, { n });
    letGo(test, app);
    await until("all have run", () => ledger(test, app).length === 31);
    expect((await ended(test, app, held)).status).toBe("success");
    const full = await testService(
      { app: { main: MAIN, toml: ONE } },
      { ...WITHOUT_WALLS, diskReserve: "1000TB" },
    );
    expect(told(await full.call("app", { n: "refused" }, ASYNC))).toEqual(REFUSED);
    expect((await full.call("app", { n: "sync" })).status).toBe(200);
    expect(ledger(full, "app")).toEqual(["sync"]);
  },
);
