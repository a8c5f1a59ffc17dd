import { expect } from "vitest";
import { RUN_AHEAD_MS, uuidBytes } from "../../../src/kit/ids.ts";
import { SettableClock } from "../../support/clocks.ts";
import { type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { ended, submit } from "../async/site.ts";

const HOUR_MS = 3_600_000;
const APP = {
  main: "def run(n):\n    return n\n",
  toml: "[scaling]\nmax_replicas = 1\n",
};
const timeOf = (id: string): number => uuidBytes(id).readUIntBE(0, 6);

/** What the management API answers. */
async function ask(test: TestService, address: string): Promise<Record<string, unknown>> {
  const { owner, baseUrl } = test.service;
  const answer = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/${address}`, {
    headers: { authorization: `Bearer ${owner.token}` },
  });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Record<string, unknown>;
}

type Listed = { readonly id: string; readonly createdAt: string };

/** All runs of a list, page by page. */
async function listed(test: TestService, filter = ""): Promise<Listed[]> {
  const runs: Listed[] = [];
  let next = "";
  do {
    const page = await ask(test, `runs?pageSize=2${filter}${next && `&nextToken=${next}`}`);
    runs.push(...(page["items"] as Listed[]));
    next = encodeURIComponent((page["nextToken"] as string | null) ?? "");
  } while (next !== "");
  return runs;
}

verifies(
  ["clock.steps", "ids.clock"],
  "when the clock is set by an hour, each run is found by the time it was made at",
  async () => {
    const clock = new SettableClock();
    const test = await testService({}, WITHOUT_WALLS, { clock });
    const made: string[] = [];
    for (const aheadMs of [0, -HOUR_MS, 0, HOUR_MS, 0]) {
      clock.aheadMs = aheadMs;
      const app = await test.own(APP);
      const sinceMs = clock.now();
      const fresh: string[] = [];
      for (let count = 0; count < 3; count++) {
        fresh.push(await submit(test, app, { n: 1 }));
        fresh.push((await test.call(app, { n: 2 })).json.run_id as string);
      }
      expect(fresh.toSorted()).toEqual(fresh);
      for (const id of fresh) {
        await ended(test, app, id);
        expect(timeOf(id)).toBeGreaterThanOrEqual(sinceMs);
        expect(timeOf(id)).toBeLessThanOrEqual(clock.now() + RUN_AHEAD_MS);
      }
      await test.service.settle();
      // What people see who look at the last minutes.
      const [from, to] = [sinceMs, clock.now() + RUN_AHEAD_MS].map((ms) => new Date(ms).toISOString());
      const recent = (await listed(test, `&from=${from}&to=${to}`)).map(({ id }) => id);
      expect(recent).toEqual(expect.arrayContaining(fresh));
      const figures = await ask(test, `figures?app_id=${test.service.owner.projectId}-${app}`);
      expect(figures["total"]).toMatchObject({ runs: fresh.length });
      made.push(...fresh);
    }
    const all = await listed(test);
    expect(all.map(({ id }) => id).toSorted()).toEqual(made.toSorted());
    const times = all.map(({ createdAt }) => createdAt);
    expect(times).toEqual(times.toSorted().toReversed());
  },
);
