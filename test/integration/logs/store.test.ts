import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import { FIRST_TAG, logIdAt, type LogLine } from "../../../src/model/log-line.ts";
import type { LogScan } from "../../../src/store/apps/logs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";

const databases = testDatabases();
const TAG = "0123456789abcd";
const START_MS = Date.UTC(2026, 0, 2);

describe.each(DATABASE_KINDS)("log lines on %s", (kind) => {
  let store: Store;
  let apps = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  const idAt = (ms: number): string => logIdAt(BigInt(START_MS + ms) * 1_000_000n, TAG);
  const line = (appNumber: number, ms: number, fields: Partial<LogLine> = {}): LogLine => ({
    id: idAt(ms),
    appNumber,
    runId: null,
    replicaId: "r-one",
    lineNumber: ms,
    stream: "stdout",
    text: `line ${ms}`,
    ...fields,
  });
  const scan = async (query: Partial<LogScan> & { appNumber: number }) =>
    await store.logs.scan({ direction: "forward", limit: 100, scanLimit: 100, ...query });
  const texts = async (query: Partial<LogScan> & { appNumber: number }) =>
    (await scan(query)).lines.map(({ text }) => text);

  test("a line comes back as it was stored, whatever it holds", async () => {
    const app = ++apps;
    const lines = [
      line(app, 1, { runId: uuidv7(START_MS), stream: "stderr" }),
      line(app, 2, { text: 'quotes " and \\ and {a,b}, NULL' }),
      line(app, 3, { text: "" }),
      line(app, 4, { text: "ünïcödé 🙂 \u2028 \t \x1b[31m" }),
      line(app, 5, { text: "x".repeat(70_000), lineNumber: 2 ** 40 }),
    ];
    await store.logs.insert(lines);
    expect(await scan({ appNumber: app })).toEqual({ lines, reached: null });
    expect(await scan({ appNumber: app, direction: "backward" })).toEqual({
      lines: lines.toReversed(),
      reached: null,
    });
    expect(await scan({ appNumber: app + 1000 })).toEqual({ lines: [], reached: null });
  });

  test("places bound a scan, themselves left out", async () => {
    const app = ++apps;
    await store.logs.insert([1, 2, 3, 4, 5].map((ms) => line(app, ms)));
    expect(await texts({ appNumber: app, after: idAt(2) })).toEqual(["line 3", "line 4", "line 5"]);
    expect(await texts({ appNumber: app, before: idAt(2) })).toEqual(["line 1"]);
    expect(await texts({ appNumber: app, after: idAt(1), before: idAt(5), limit: 2 })).toEqual([
      "line 2",
      "line 3",
    ]);
    expect(await texts({ appNumber: app, after: idAt(1), before: idAt(5), direction: "backward" })).toEqual([
      "line 4",
      "line 3",
      "line 2",
    ]);
  });

  test("a run's, a replica's and a stream's lines are found, and those that contain a text in any case", async () => {
    const app = ++apps;
    const [one, other] = [uuidv7(START_MS), uuidv7(START_MS)];
    await store.logs.insert([
      line(app, 1, { runId: one, text: "Loading 100% of it" }),
      line(app, 2, { runId: other, text: "loading 1000 of it", replicaId: "r-two" }),
      line(app, 3, { runId: one, text: "a_b", stream: "stderr" }),
      line(app, 4, { text: "aXb !" }),
    ]);
    const numbers = async (query: Partial<LogScan>) =>
      (await scan({ appNumber: app, ...query })).lines.map(({ lineNumber }) => lineNumber);
    expect(await numbers({ runId: one })).toEqual([1, 3]);
    expect(await numbers({ runId: one, stream: "stderr" })).toEqual([3]);
    expect(await numbers({ runId: uuidv7(START_MS) })).toEqual([]);
    expect(await numbers({ replicaId: "r-two" })).toEqual([2]);
    expect(await numbers({ search: "LOADING" })).toEqual([1, 2]);
    // No sign of a pattern means anything.
    expect(await numbers({ search: "100%" })).toEqual([1]);
    expect(await numbers({ search: "a_B" })).toEqual([3]);
    expect(await numbers({ search: "!" })).toEqual([4]);
    expect(await numbers({ search: "' or 1=1 --" })).toEqual([]);
  });

  test("a scan stops after as many lines as it may look at, and says where", async () => {
    const app = ++apps;
    await store.logs.insert(Array.from({ length: 10 }, (_, ms) => line(app, ms)));
    const rare = { appNumber: app, search: "line 9", scanLimit: 4 };
    expect(await scan(rare)).toEqual({ lines: [], reached: idAt(3) });
    expect(await scan({ ...rare, after: idAt(3) })).toEqual({ lines: [], reached: idAt(7) });
    expect((await scan({ ...rare, after: idAt(7) })).reached).toBeNull();
    expect(await scan({ ...rare, direction: "backward", search: "line 0" })).toEqual({
      lines: [],
      reached: idAt(6),
    });
    // As many as asked for: it goes on after the last of them.
    expect((await scan({ appNumber: app, limit: 2 })).reached).toBe(idAt(1));
  });

  test("a batch that is written again changes nothing", async () => {
    const app = ++apps;
    const batch = [line(app, 1), line(app, 2)];
    await store.logs.insert(batch);
    const usedBytes = await store.logs.usedBytes();
    await store.logs.insert(batch);
    expect((await scan({ appNumber: app })).lines).toHaveLength(2);
    expect(await store.logs.usedBytes()).toBe(usedBytes);
  });

  test("old lines expire, the oldest go first, over all apps, and what they took up is given back", async () => {
    while ((await store.logs.removeOldest({ limit: 100 })) > 0);
    expect(await store.logs.usedBytes()).toBe(0);
    expect(await store.logs.last()).toBeNull();
    const [one, two] = [++apps, ++apps];
    await store.logs.insert([
      line(one, 1, { text: "ü".repeat(500) }),
      line(two, 2),
      line(one, 3),
      line(two, 4),
    ]);
    expect(await store.logs.usedBytes()).toBeGreaterThan(1000);
    expect(await store.logs.last()).toBe(idAt(4));
    expect(await store.logs.expire({ before: START_MS + 3, limit: 1 })).toBe(1);
    expect(await store.logs.expire({ before: START_MS + 3, limit: 10 })).toBe(1);
    expect(await store.logs.expire({ before: START_MS + 3, limit: 10 })).toBe(0);
    expect(await texts({ appNumber: one })).toEqual(["line 3"]);
    expect(await store.logs.removeOldest({ limit: 1 })).toBe(1);
    expect([await texts({ appNumber: one }), await texts({ appNumber: two })]).toEqual([[], ["line 4"]]);
    expect(await store.logs.removeOldest({ limit: 10 })).toBe(1);
    expect(await store.logs.usedBytes()).toBe(0);
  });

  test("a place that no line has is a place all the same", async () => {
    const app = ++apps;
    await store.logs.insert([line(app, 1), line(app, 3)]);
    const between = logIdAt(BigInt(START_MS + 2) * 1_000_000n, FIRST_TAG);
    expect(await texts({ appNumber: app, after: between })).toEqual(["line 3"]);
  });
});
