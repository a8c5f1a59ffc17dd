import { afterAll, expect, test } from "vitest";
import { openDatabase, viewRuns } from "../../../bench/async-database.ts";
import { startGroupCommit } from "../../../bench/async-floor-client.ts";
import { stopAll } from "../../../bench/processes.ts";
import { removeScratchDirs } from "../../../bench/scratch.ts";
import { openStore } from "../../../src/store/store.ts";

afterAll(async () => {
  await stopAll();
  removeScratchDirs();
});

test("the bare group commit stores what it counts, and the view sees how it ends", async () => {
  const database = await openDatabase("sqlite");
  const place = await database.place("floor");
  const floor = startGroupCommit(place);
  const measureMs = 200;
  const { perSecond, p50Us, p99Us } = await floor.measure({ inFlight: 8, leadInMs: 0, measureMs });
  await floor.stop();
  expect(perSecond).toBeGreaterThan(0);
  expect(p99Us).toBeGreaterThanOrEqual(p50Us);

  const store = await openStore(place);
  const stored = await store.runs.count({});
  // What was under way when the window closed is stored and not counted.
  expect(stored).toBeGreaterThanOrEqual((perSecond * measureMs) / 1000);

  const view = await viewRuns(place);
  let hasEnded = false;
  const ended = view.allEnded().then(() => (hasEnded = true));
  expect(await view.successes()).toBe(0);
  const claim = { appNumber: 1, owner: "test", limit: stored, maxBytes: 1 << 30 };
  const { runs } = await store.claims.claim(claim);
  expect(hasEnded).toBe(false);
  await store.claims.finish(
    runs.map(({ run, fence }) => ({
      run: { ...run, state: "success" as const, statusCode: 200 },
      fence,
      owner: "test",
      result: null,
      part: null,
      delivery: null,
    })),
  );
  await ended;
  expect(await view.successes()).toBe(stored);
  await view.close();
  await store.close();
});
