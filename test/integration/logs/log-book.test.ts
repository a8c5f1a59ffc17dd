import { Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { AppLogLine } from "../../../src/apps/catalog.ts";
import { LogBook, type LogBookParts, type LogQuery } from "../../../src/apps/logs/log-book.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { uuidv7 } from "../../support/ids.ts";
import { createLog } from "../../../src/kit/log.ts";
import { type LogLine, nanosecondsOf } from "../../../src/model/log-line.ts";
import type { LogUse } from "../../../src/store/apps/logs.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HeldClock } from "../../support/held-clock.ts";
import { until } from "../../support/until.ts";

const databases = testDatabases();
const LIMITLESS = { linesPerSecond: 1e9, bytesPerSecond: 1e12, burstSeconds: 1 };
const texts = (lines: readonly LogLine[]): string[] => lines.map(({ text }) => text);
const count = (to: number): string[] => Array.from({ length: to }, (_, i) => `line ${i}`);

describe.each(triedKinds("sqlite"))("a log book on %s", (kind) => {
  let store: Store;
  let apps = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  async function open(parts: Partial<LogBookParts> = {}): Promise<LogBook> {
    const book = await LogBook.open({
      store,
      clock: systemClock,
      log: createLog("silent"),
      runLimits: LIMITLESS,
      ...parts,
    });
    onTestFinished(async () => await book.stop());
    return book;
  }
  const print = (book: LogBook, appNumber: number, text: string, fields: Partial<AppLogLine> = {}): void =>
    book.add({
      projectId: "p-one",
      appName: "app",
      appNumber,
      replicaId: "r-one",
      runId: null,
      stream: "stdout",
      text,
      ...fields,
    });
  const query = async (book: LogBook, appNumber: number, fields: Partial<LogQuery> = {}) =>
    await book.query({ appNumber, direction: "forward", pageSize: 1000, ...fields });

  test("what was printed before a query is in its page, each line with a time of its own", async () => {
    const book = await open();
    const app = ++apps;
    for (const text of count(500)) print(book, app, text);
    const { lines, reached } = await query(book, app);
    expect([texts(lines), reached]).toEqual([count(500), null]);
    const times = lines.map(({ id }) => nanosecondsOf(id));
    expect(times.every((time, i) => i === 0 || time > times[i - 1]!)).toBe(true);
    expect(new Set(lines.map(({ id }) => id)).size).toBe(500);
  });

  test("each replica's lines are numbered from 1", async () => {
    const book = await open();
    const [app, other] = [++apps, ++apps];
    for (const replicaId of ["r-a", "r-b", "r-a"]) print(book, app, replicaId, { replicaId });
    print(book, other, "r-a", { replicaId: "r-a" });
    const numbers = async (number: number) =>
      (await query(book, number)).lines.map((line) => `${line.text} ${line.lineNumber}`);
    expect(await numbers(app)).toEqual(["r-a 1", "r-b 1", "r-a 2"]);
    expect(await numbers(other)).toEqual(["r-a 1"]);
  });

  test("pages in both directions hold every line once, while more is printed", async () => {
    const book = await open();
    const app = ++apps;
    for (const text of count(250)) print(book, app, text);
    for (const direction of ["forward", "backward"] as const) {
      const seen: string[] = [];
      let place: string | null = null;
      do {
        const from = place === null ? {} : { [direction === "forward" ? "after" : "before"]: place };
        const page: { lines: readonly LogLine[]; reached: string | null } = await query(book, app, {
          direction,
          pageSize: 99,
          ...from,
        });
        seen.push(...texts(page.lines));
        place = page.reached;
        if (direction === "backward") print(book, app, "later");
      } while (place !== null);
      expect(direction === "forward" ? seen : seen.toReversed()).toEqual(count(250));
    }
  });

  test("a rare find is reached in several pages", async () => {
    const book = await open({ clock: { ...systemClock, monotonic: hastyClock() } });
    const app = ++apps;
    print(book, app, "The Needle");
    for (const text of count(4_500)) print(book, app, text);
    const search = { search: "needle", direction: "backward", pageSize: 10 } as const;
    const first = await query(book, app, search);
    expect(first.lines).toEqual([]);
    expect(first.reached).not.toBeNull();
    const second = await query(book, app, { ...search, before: first.reached! });
    expect(second.lines).toEqual([]);
    const third = await query(book, app, { ...search, before: second.reached! });
    expect([texts(third.lines), third.reached]).toEqual([["The Needle"], null]);
  });

  test("a tail replays what is stored, then follows, with no line twice and none left out", async () => {
    const app = ++apps;
    const before = await open();
    for (const text of count(1_000)) print(before, app, text);
    await before.stop();

    const book = await open();
    const [all, late, run] = [new Reader(), new Reader(), new Reader()];
    const runId = uuidv7(Date.now());
    const start = (await query(book, app, { pageSize: 1 })).lines[0]!.id;
    all.follow(book, { appNumber: app, after: start });
    run.follow(book, { appNumber: app, runId });
    // So large that what is stored does not stay in memory: a tail that falls behind has to go to the store.
    const filler = "x".repeat(10_000);
    const expected = count(1_000).slice(1);
    for (let round = 0; round < 20; round++) {
      for (let i = 0; i < 50; i++) {
        const text = `round ${round} line ${i} ${filler}`;
        expected.push(text);
        print(book, app, text, i === 7 ? { runId } : {});
        print(book, app + 1000, "another app's");
      }
      if (round === 10) late.follow(book, { appNumber: app });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until("all lines were read", () => all.texts.length >= expected.length);
    expect(all.texts).toEqual(expected);
    await until("the late one has the rest", () => late.texts.length >= 9 * 50);
    expect(late.texts).toEqual(expected.slice(-9 * 50));
    await until("the run's lines were read", () => run.texts.length >= 20);
    expect(run.texts).toEqual(expected.filter((text) => text.includes(" line 7 ")));
    all.stop();
    late.stop();
    run.stop();
    await Promise.all([all.ended, late.ended, run.ended]);
  });

  test("a tail that reads slowly gets every line, though memory has let go of them", async () => {
    const book = await open();
    const app = ++apps;
    const stop = new AbortController();
    const tail = book.tail({ appNumber: app }, stop.signal);
    print(book, app, "first");
    expect(texts((await tail.next()).value ?? [])).toEqual(["first"]);
    const filler = "x".repeat(60_000);
    for (const text of count(200)) print(book, app, `${text} ${filler}`);
    // Stored now, and twelve megabytes: more than is kept.
    await query(book, app, { pageSize: 1 });
    const seen: string[] = [];
    while (seen.length < 200) seen.push(...texts((await tail.next()).value ?? []));
    expect(seen.map((text) => text.slice(0, -filler.length - 1))).toEqual(count(200));
    stop.abort();
    expect((await tail.next()).done).toBe(true);
  });

  test("lines wait while the storage is away, and are all there when it is back", async () => {
    const away = { isAway: true };
    const book = await open({ store: withFaults(store, away) });
    const app = ++apps;
    for (const text of count(100)) print(book, app, text);
    await until("it was tried", () => away.isAway && triesOf(away) > 0);
    print(book, app, "more");
    const live = new Reader();
    live.follow(book, { appNumber: app });
    print(book, app, "live");
    await until("a tail needs no storage", () => live.texts.length === 1);
    live.stop();
    away.isAway = false;
    expect(texts((await query(book, app)).lines)).toEqual([...count(100), "more", "live"]);
  });

  test("more than may wait is dropped, and the log says how much", async () => {
    const away = { isAway: true };
    const words: string[] = [];
    const log = createLog(
      "error",
      new Writable({ write: (chunk, _, done) => (words.push(String(chunk)), done()) }),
    );
    const book = await open({ store: withFaults(store, away), log });
    // Many apps, for one alone may not print so much.
    const [app, ...others] = [++apps, ++apps, ++apps];
    const filler = "x".repeat(60_000);
    for (let i = 0; i < 340; i++) for (const other of others) print(book, other, filler);
    print(book, app, "dropped", { runId: uuidv7(Date.now()) });
    print(book, app, "dropped too");
    away.isAway = false;
    await query(book, app);
    print(book, app, "kept");
    const { lines } = await query(book, app);
    expect(texts(lines)).toEqual(["[millrace] 2 lines are missing here: they could not be stored", "kept"]);
    expect(lines[0]?.runId).toBeNull();
    expect(words.join("")).toContain('"lineCount":2');
  });

  test("a flood is cut off, and the log says how many lines it had more", async () => {
    const time = { ms: 0 };
    const book = await open({
      clock: { ...systemClock, monotonic: () => time.ms },
      runLimits: { linesPerSecond: 10, bytesPerSecond: 1e6, burstSeconds: 2 },
    });
    const app = ++apps;
    const [loud, quiet] = [uuidv7(Date.now()), uuidv7(Date.now())];
    for (const text of count(100)) print(book, app, text, { runId: loud });
    print(book, app, "from another run", { runId: quiet });
    time.ms = 1_000;
    print(book, app, "goes on", { runId: loud });
    const ofRun = async (runId: string) => texts((await query(book, app, { runId })).lines);
    expect(await ofRun(loud)).toEqual([
      ...count(20),
      "[millrace] 80 lines were omitted here: a run may print at most 10 lines and 1000000 bytes a second",
      "goes on",
    ]);
    expect(await ofRun(quiet)).toEqual(["from another run"]);
  });

  test("a flood that just stops is told of all the same", async () => {
    const clock = new HeldClock();
    const runLimits = { linesPerSecond: 10, bytesPerSecond: 1e6, burstSeconds: 1 };
    const book = await open({ clock, runLimits });
    const app = ++apps;
    clock.hold();
    for (const text of count(15)) print(book, app, text);
    clock.release();
    const last = async () => texts((await query(book, app)).lines).at(-1);
    await until("it says so", async () => (await last())?.includes("5 lines were omitted here") ?? false);
  });

  test("one app cannot fill what others' lines wait in", async () => {
    const clock = new HeldClock();
    const book = await open({ clock });
    const [app, other] = [++apps, ++apps];
    clock.hold();
    for (let i = 0; i < 30_000; i++) print(book, app, "flood", { runId: uuidv7(Date.now()) });
    print(book, other, "heard");
    expect(texts((await query(book, other)).lines)).toEqual(["heard"]);
    await book.stop();
    const { lines } = await query(await open(), app, { search: "an app may print", direction: "backward" });
    expect(lines).toHaveLength(1);
  });

  test("a tag that is no run's id is no run's line", async () => {
    const book = await open();
    const app = ++apps;
    for (const runId of ["x", "../../etc", uuidv7(1).toUpperCase()]) print(book, app, "forged", { runId });
    expect((await query(book, app)).lines.map(({ runId }) => runId)).toEqual([null, null, null]);
  });

  test("times grow when the clock goes back, also over a restart", async () => {
    const time = { ms: Date.now() };
    const clock = { ...systemClock, now: () => time.ms };
    const app = ++apps;
    const book = await open({ clock });
    print(book, app, "one");
    time.ms -= 60_000;
    print(book, app, "two");
    await book.stop();
    const next = await open({ clock });
    print(next, app, "three");
    expect(texts((await query(next, app)).lines)).toEqual(["one", "two", "three"]);
  });

  test("a stop stores what waits", async () => {
    const book = await open();
    const app = ++apps;
    for (const text of count(3_000)) print(book, app, text);
    await book.stop();
    const page = await store.logs.scan({
      appNumber: app,
      direction: "forward",
      limit: 5_000,
      scanLimit: 5_000,
    });
    expect(texts(page.lines)).toEqual(count(3_000));
  });

  test("what is printed after a stop is not written: the store may be closed", async () => {
    const fault = { isAway: false };
    const book = await open({ store: withFaults(store, fault) });
    const app = ++apps;
    print(book, app, "before");
    await book.stop();
    print(book, app, "after");
    expect([texts((await query(book, app)).lines), triesOf(fault)]).toEqual([["before"], 1]);
  });
});

/** Each look at it is a second later. */
function hastyClock(): () => number {
  let ms = 0;
  return () => (ms += 1_000);
}

const tries = new WeakMap<object, number>();
const triesOf = (fault: object): number => tries.get(fault) ?? 0;

/** The store, but no line can be written while it is away: a disk that fails cannot be had on demand. */
function withFaults(store: Store, fault: { isAway: boolean }): Store {
  const insert = async (lines: readonly LogLine[]): Promise<LogUse[]> => {
    tries.set(fault, triesOf(fault) + 1);
    if (fault.isAway) throw new Error("the disk is full");
    return await store.logs.insert(lines);
  };
  return { ...store, logs: { ...store.logs, insert } };
}

/** Reads a tail as fast as it comes. */
class Reader {
  readonly texts: string[] = [];
  ended: Promise<void> = Promise.resolve();
  readonly #stop = new AbortController();

  follow(book: LogBook, query: Parameters<LogBook["tail"]>[0]): void {
    this.ended = this.#read(book.tail(query, this.#stop.signal));
  }

  stop(): void {
    this.#stop.abort();
  }

  async #read(tail: AsyncIterable<readonly LogLine[]>): Promise<void> {
    for await (const lines of tail) this.texts.push(...texts(lines));
  }
}
