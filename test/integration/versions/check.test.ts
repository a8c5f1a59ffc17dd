import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { NEVER, app, catalogSites } from "./site.ts";

const sites = catalogSites();

const toml = "[deployment]\ndeployment_initialization_timeout = 60\n";

verifies(
  "deploy.check",
  "the replica that was tried is the first that serves, and no other is started",
  async () => {
    const site = await sites();
    const candidate = await site.prepare("tried", app("one"));
    const check = await candidate.check(NEVER);
    expect(check).toMatchObject({
      kind: "ready",
      functions: [{ name: "run" }, { name: "hold" }, { name: "env" }],
    });
    expect(site.catalog.find(site.projectId, "tried")).toBeUndefined();
    const { pool, version } = await site.catalog.activate(candidate);
    const [replica] = pool.replicas;
    expect(await site.value("tried")).toBe("one");
    expect([pool.counts.starts, replica?.state]).toEqual([1, "ready"]);
    expect((await site.store.versions.find(version.id))?.functions).toHaveLength(3);
  },
);

verifies(
  ["deploy.check", "run.reserved.at-deploy"],
  "a version that cannot start says why, leaves no process, and changes nothing",
  async () => {
    const site = await sites();
    await site.deploy("app", app("one"));
    const cases = [
      ["raise ValueError('no model')", { kind: "failed", message: "ValueError: no model" }],
      ["def broken(:", { kind: "failed", message: expect.stringContaining("SyntaxError") }],
      ["os._exit(3)", { kind: "failed", message: expect.stringContaining("exit code 3") }],
      ["def runs(): pass", { kind: "failed", message: expect.stringContaining('a function "runs"') }],
    ] as const;
    for (const [more, expected] of cases) {
      const candidate = await site.prepare("app", app("two", "", more));
      expect(await candidate.check(NEVER)).toMatchObject(expected);
      expect(site.processes(candidate.version)).toBe(0);
      await candidate.discard();
      await expect(site.catalog.activate(candidate)).rejects.toThrow("was discarded");
      expect(await site.value("app")).toBe("one");
    }
  },
);

verifies("deploy.check", "an import that does not end is killed when its time is over", async () => {
  const site = await sites();
  for (const fork of ["auto", "never"]) {
    const more = `open(os.path.join(os.environ["PERSISTENT_STORAGE"], "${fork}"), "w")\ntime.sleep(600)`;
    const candidate = await site.prepare("slow", app("one", `${toml}fork = "${fork}"\n`, more));
    let isOver = false;
    const check = candidate.check(NEVER).finally(() => (isOver = true));
    await until("it imports", () => site.has(fork));
    site.clock.skip(50_000);
    expect([isOver, site.processes(candidate.version) > 0]).toEqual([false, true]);
    site.clock.skip(10_000);
    const message = "main.py was not ready within deployment_initialization_timeout (60 s)";
    expect(await check).toEqual({ kind: "timeout", message });
    expect(site.processes(candidate.version)).toBe(0);
  }
});

test("a check that is given up ends its process and rejects with the reason", async () => {
  const site = await sites();
  const candidate = await site.prepare("slow", app("one", "", "time.sleep(600)"));
  const stop = new AbortController();
  const check = candidate.check(stop.signal);
  await until("it imports", () => site.processes(candidate.version) > 0);
  stop.abort(new Error("cancelled by hand"));
  await expect(check).rejects.toThrow("cancelled by hand");
  expect(site.processes(candidate.version)).toBe(0);
});

test("a candidate that nobody activates ends with the catalogue", async () => {
  const site = await sites();
  const candidate = await site.prepare("app", app("one"));
  await candidate.check(NEVER);
  expect(site.processes(candidate.version)).toBeGreaterThan(0);
  await site.close();
  expect(site.processes(candidate.version)).toBe(0);
});
