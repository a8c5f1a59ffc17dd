import { expect } from "vitest";
import { systemClock } from "../../src/kit/clock.ts";
import { UuidSource } from "../../src/kit/ids.ts";
import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { sharedDashboard, thereAre } from "../support/dashboard-site.ts";
import { sampleEnd, sampleRun } from "../support/sample-run.ts";
import { verifies } from "../verifies.ts";

const { service, open } = sharedDashboard();
/** More than two pages of a search look through. */
const RUNS = 45_000;
const BATCH = 5_000;

verifies(
  ["dashboard.run-search", "dashboard.runs"],
  "a function that ran long ago is found without a click, and a run by its id",
  async () => {
    const { store, owner } = service().service;
    const { projectId } = owner;
    const createdAt = systemClock.now() - 3_600_000;
    const { number: appNumber } = await store.apps.insertOrFind({ projectId, name: "busy", createdAt });
    const ids = new UuidSource();
    const runs = Array.from({ length: RUNS }, (_, i) =>
      sampleRun({ appNumber, id: ids.next(createdAt + i), createdAt, functionName: i < 4 ? "rare" : "run" }),
    );
    for (let at = 0; at < RUNS; at += BATCH)
      await store.runs.insertFinished([packEnded(runs.slice(at, at + BATCH).map((run) => sampleEnd(run)))]);
    for (const place of ["/runs?function=rare", "/apps/busy/runs?function=rare"]) {
      const { page, complaints } = await open(place);
      const rows = page.getByRole("row").filter({ has: page.getByRole("link") });
      await thereAre(4, rows);
      await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
      expect(await page.getByText("Searched back to").count()).toBe(0);
      expect(complaints).toEqual([]);
    }
    const { page } = await open("/runs?function=rare&status=success");
    const [first] = runs;
    await page.getByRole("textbox", { name: "Run id", exact: true }).fill(` ${first!.id.toUpperCase()} `);
    await page.waitForURL((url) => url.search === `?id=${first!.id}`);
    await thereAre(
      1,
      page.getByRole("row").filter({ has: page.getByRole("link", { name: `Run ${first!.id}` }) }),
    );
    // It is one run: there is nothing to be done to all that match.
    expect(await page.getByRole("button", { name: "Delete…" }).count()).toBe(0);
  },
);
