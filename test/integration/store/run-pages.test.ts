import { describe, expect, test } from "vitest";
import { UuidSource } from "../../../src/kit/ids.ts";
import { uuidv7 } from "../../support/ids.ts";
import { type Run, RUN_STATES } from "../../../src/model/run.ts";
import type { RunFilter } from "../../../src/store/runs/run-pages.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** Later than any clock here: ids are made in order, and grow with the time they are given. */
const START = Date.now() + 60_000;
const DAY_MS = 86_400_000;

async function openProject(store: Store, projectId: string, appCount: number): Promise<number[]> {
  await store.projects.insert({ id: projectId, name: projectId, createdAt: 1 });
  const numbers: number[] = [];
  for (let place = 0; place < appCount; place += 1) {
    const app = await store.apps.insertOrFind({ projectId, name: `app-${place}`, createdAt: 1 });
    numbers.push(app.number);
  }
  return numbers;
}

/** Every id that the pages give, whatever they are cut into. */
async function walk(
  list: (filter: RunFilter) => Promise<{ runs: Run[]; next: string | null }>,
  filter: RunFilter,
): Promise<string[]> {
  const ids: string[] = [];
  let before: string | null = null;
  do {
    const page: { runs: Run[]; next: string | null } = await list({ ...filter, ...(before && { before }) });
    ids.push(...page.runs.map(({ id }) => id));
    before = page.next;
  } while (before !== null);
  return ids;
}

describe.each(DATABASE_KINDS)("pages of runs on %s", (kind) => {
  test("each filter gives exactly the runs it names, page by page, of an app and of a project", async () => {
    const store = await openStore(await databases.fresh(kind));
    const [one = 0, two = 0, deleted = 0] = await openProject(store, "p-mine", 12);
    const [other = 0] = await openProject(store, "p-other", 1);
    const stored = Array.from({ length: 400 }, (_, i) =>
      sampleRun({
        // Most in one app, so that an app's own page is full before the others' newest are reached.
        appNumber: [one, one, one, two, deleted, other][i % 6]!,
        id: uuidv7(START + i),
        state: RUN_STATES[i % 5]!,
        isAsync: i % 7 < 3,
        functionName: i % 11 === 0 ? "rare" : "run",
      }),
    );
    await store.runs.insertFinished([packEnded(stored.map((run) => sampleEnd(run)))]);
    await store.apps.markDeleted({ appNumber: deleted, now: START });
    const newest = stored.toReversed();
    const [fromMs, toMs] = [START + 100, START + 300];
    const cases: [Omit<RunFilter, "limit">, (run: Run) => boolean][] = [
      [{}, () => true],
      [{ asyncOnly: true }, ({ isAsync }) => isAsync],
      [{ syncOnly: true }, ({ isAsync }) => !isAsync],
      ...RUN_STATES.map((state): [Omit<RunFilter, "limit">, (run: Run) => boolean] => [
        { state },
        (run) => run.state === state,
      ]),
      [{ state: "success", asyncOnly: true }, (run) => run.state === "success" && run.isAsync],
      [{ functionName: "rare" }, ({ functionName }) => functionName === "rare"],
      [
        { functionName: "rare", state: "failure" },
        (run) => run.functionName === "rare" && run.state === "failure",
      ],
      [{ functionName: "none" }, () => false],
      [{ fromMs, toMs }, ({ id }) => id >= uuidAt(fromMs) && id < uuidAt(toMs)],
      [{ fromMs, syncOnly: true }, ({ id, isAsync }) => id >= uuidAt(fromMs) && !isAsync],
    ];
    for (const [filter, isWanted] of cases) {
      const wanted = newest.filter(isWanted);
      const ofApp = await walk((page) => store.runs.pageOfApp({ appNumber: one, ...page }), {
        limit: 7,
        ...filter,
      });
      expect([filter, ofApp]).toEqual([
        filter,
        wanted.filter((run) => run.appNumber === one).map(({ id }) => id),
      ]);
      const mine = wanted.filter(({ appNumber }) => appNumber === one || appNumber === two);
      const ofProject = await walk((page) => store.runs.pageOfProject({ projectId: "p-mine", ...page }), {
        limit: 7,
        ...filter,
      });
      expect([filter, ofProject]).toEqual([filter, mine.map(({ id }) => id)]);
    }
    await store.close();
  });

  verifies(
    "wire.fields.lists",
    "a list brings a beginning of an error's text, and no traceback",
    async () => {
      const store = await openStore(await databases.fresh(kind));
      const [appNumber = 0] = await openProject(store, "p-mine", 1);
      const errorMessage = "x".repeat(1_000_000);
      const failed = sampleRun({
        appNumber,
        id: uuidv7(START),
        state: "failure",
        functionName: "rare",
        errorCode: "app_error",
        errorMessage,
        errorTraceback: errorMessage,
      });
      await store.runs.insertFinished([packEnded([sampleEnd(failed)])]);
      const listed = { ...failed, errorMessage: "x".repeat(1_000), errorTraceback: null };
      for (const filter of [{}, { functionName: "rare" }, { state: "failure" as const }]) {
        const page = await store.runs.pageOfApp({ appNumber, limit: 10, ...filter });
        expect(page.runs).toEqual([listed]);
        const ofProject = await store.runs.pageOfProject({ projectId: "p-mine", limit: 10, ...filter });
        expect(ofProject.runs).toEqual([listed]);
      }
      expect(await store.runs.find({ appNumber, id: failed.id })).toEqual(failed);
      await store.close();
    },
  );

  test("what no index finds is looked for in many runs, page by page, until it is found", async () => {
    const store = await openStore(await databases.fresh(kind));
    const [appNumber = 0] = await openProject(store, "p-mine", 1);
    const ids = new UuidSource();
    const rare = sampleRun({ appNumber, id: ids.next(START), functionName: "rare" });
    const rest = Array.from({ length: 21_000 }, () => sampleRun({ appNumber, id: ids.next(START) }));
    await store.runs.insertFinished([packEnded([rare, ...rest].map((run) => sampleEnd(run)))]);
    const first = await store.runs.pageOfApp({ appNumber, limit: 10, functionName: "rare" });
    expect([first.runs, first.next]).toEqual([[], rest.at(-20_000)?.id]);
    const second = await store.runs.pageOfApp({
      appNumber,
      limit: 10,
      functionName: "rare",
      before: first.next ?? "",
    });
    expect(second).toEqual({ runs: [rare], next: null });
    await store.close();
  });

  verifies(
    "runs.search",
    "what no index finds in a project is looked for in 20,000 runs a page, however they are spread over time and apps",
    async () => {
      const store = await openStore(await databases.fresh(kind));
      const [one = 0, two = 0] = await openProject(store, "p-mine", 3);
      const ids = new UuidSource();
      const stored: Run[] = [];
      const add = (atMs: number, functionName = "run"): void => {
        const appNumber = stored.length % 3 === 0 ? one : two;
        stored.push(sampleRun({ appNumber, id: ids.next(atMs), functionName }));
      };
      add(START, "rare");
      add(START + 1);
      // A month later: crowds in single milliseconds, a quiet hour, and one more that is wanted.
      for (let i = 0; i < 21_000; i++) add(START + 30 * DAY_MS + Math.floor(i / 3_000));
      for (let i = 0; i < 3_000; i++) add(START + 31 * DAY_MS + i * 1_200, i === 1_000 ? "rare" : "run");
      await store.runs.insertFinished([packEnded(stored.map((run) => sampleEnd(run)))]);
      const wanted = stored.filter(({ functionName }) => functionName === "rare");
      let pages = 0;
      const found = await walk(
        async (page) => {
          pages += 1;
          return await store.runs.pageOfProject({ ...page, projectId: "p-mine" });
        },
        { limit: 10, functionName: "rare" },
      );
      expect(found).toEqual(wanted.toReversed().map(({ id }) => id));
      expect(pages).toBeLessThan(5);
      expect(await store.runs.appOf({ projectId: "p-mine", id: wanted[0]!.id })).toBe(one);
      expect(await store.runs.appOf({ projectId: "p-other", id: wanted[0]!.id })).toBeNull();
      await store.close();
    },
  );
});

function uuidAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}
