import { expect, test } from "vitest";
import type { Outcome } from "../../../src/model/outcome.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, callOn, type CatalogSite, catalogSites, valueOf } from "./site.ts";

const sites = catalogSites();

/** Calls one after the other until it is told to stop; gives how all of them ended. */
function keepCalling(site: CatalogSite, name: string): () => Promise<Outcome[]> {
  const over = new AbortController();
  const calling = (async () => {
    const outcomes: Outcome[] = [];
    while (!over.signal.aborted) {
      outcomes.push(await site.call(name));
      // A deploy needs its turns too.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return outcomes;
  })();
  return async () => {
    over.abort();
    return await calling;
  };
}

verifies(
  ["deploy.rollout", "deploy.old-replicas"],
  "calls move at once to a version that is ready; those under way end where they are, and none fails",
  async () => {
    const site = await sites();
    const first = await site.deploy("app", app("one"));
    const held = site.value("app", "hold", { gate: "go" });
    const callers = Array.from({ length: 4 }, () => keepCalling(site, "app"));
    for (const version of ["two", "three", "four"]) {
      await site.deploy("app", app(version));
      expect(await site.value("app")).toBe(version);
    }
    const order = ["one", "two", "three", "four"];
    for (const stop of callers) {
      // A call that did not return throws here.
      const places = (await stop()).map((outcome) => order.indexOf(String(valueOf(outcome))));
      expect(places).toEqual(places.toSorted((a, b) => a - b));
    }
    // The held call keeps its replica, and nothing else of its version is kept.
    await until("one replica is left of it", () => first.pool.replicas.size === 1);
    site.open("go");
    expect(await held).toBe("one");
    await until("its processes are gone", () => site.processes(first.version) === 0);
  },
);

test("a switch begins with as many replicas as served before, within the limits of the new version", async () => {
  const site = await sites();
  const scaling = (max: number, rest = "") => `[scaling]\nmax_replicas = ${max}\n${rest}`;
  const { pool } = await site.deploy("app", app("one", scaling(4, "min_replicas = 3\n")));
  await until("three are ready", () => pool.readyCount === 3);
  const { pool: second } = await site.deploy("app", app("two", scaling(4)));
  expect(second.readyCount).toBe(3);
  const { pool: third } = await site.deploy("app", app("three", scaling(2)));
  expect(third.readyCount).toBe(2);
});

test("who came with the old version, and who waits for its cold start, is served by it", async () => {
  const site = await sites();
  const wait = `while not os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "imported")): time.sleep(0.005)`;
  const candidate = await site.prepare("app", app("one", "", wait));
  const { pool } = await site.catalog.activate(candidate);
  // No replica of it is ready yet.
  const waiting = callOn(pool);
  await site.deploy("app", app("two"));
  expect(await site.value("app")).toBe("two");
  site.open("imported");
  expect(valueOf(await waiting)).toBe("one");
  await until("its replicas are gone", () => pool.replicas.size === 0);
  expect(valueOf(await callOn(pool))).toBe("one");
});

test("calls handed ahead and calls that wait stay with the version that has them", async () => {
  const site = await sites();
  const one = "[scaling]\nmax_replicas = 1\n";
  await site.deploy("app", app("one", one));
  // Enough short calls that the replica is trusted with some ahead of their turn.
  for (let i = 0; i < 100; i++) await site.call("app");
  const calls = Array.from({ length: 200 }, () => site.call("app"));
  const deploying = site.deploy("app", app("two", one));
  const later = Array.from({ length: 200 }, () => site.call("app"));
  await deploying;
  expect(new Set((await Promise.all([...calls, ...later])).map(valueOf))).toEqual(new Set(["one"]));
  expect(await site.value("app")).toBe("two");
});

test("a version that is deployed while another is switched to takes its place after it", async () => {
  const site = await sites();
  await site.deploy("app", app("one"));
  await Promise.all(["two", "three", "four"].map((version) => site.deploy("app", app(version))));
  const live = await site.current("app");
  expect((await site.app("app")).currentVersionId).toBe(live.version.id);
  const idle = site.catalog.versions(live.app.number).filter(({ pool }) => pool !== live.pool);
  expect(idle).toHaveLength(3);
  await until("the others have no replica", () => idle.every(({ pool }) => pool.replicas.size === 0));
});
