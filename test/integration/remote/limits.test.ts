import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import type { TestApp, TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { FILLER, HEADLESS, HUNGRY, HUNGRY_SERVER, SMALL } from "../../support/walls/greedy-apps.ts";
import { requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const GOOD = "def run(n):\n    return n + 1\n";
const OUT_OF_MEMORY = [502, "out_of_memory"];

async function seated(
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
): Promise<TestService> {
  return (await remoteService(databases, apps, { flags, isShared: true })).on;
}

const replicaIds = (on: TestService): string[] => [...on.apps.get("app")!.pool.replicas].map(({ id }) => id);

for (const isolation of ["none", "userns"] as const) {
  for (const fork of ["auto", "never"]) {
    verifies(
      "seats.limits.memory",
      `behind ${isolation}, with fork = ${fork}, a memory bomb is 502 out_of_memory, and its neighbour notices nothing`,
      async (context) => {
        if (isolation !== "none") await requireOffered(isolation, context);
        const toml = `${SMALL}[deployment]\nfork = "${fork}"\n`;
        const on = await seated({ bomb: { main: HUNGRY, toml }, sibling: { main: GOOD } }, { isolation });
        const state = { isOver: false };
        const bomb = on.call("bomb", {}, { functionName: "eat" }).finally(() => (state.isOver = true));
        for (let calls = 0; !state.isOver || calls < 20; calls++) {
          const answer = await on.call("sibling", { n: calls });
          expect([answer.status, answer.json.result]).toEqual([200, calls + 1]);
        }
        const { status, json } = await bomb;
        expect([status, json.code]).toEqual(OUT_OF_MEMORY);
        expect(json.message).toContain("memory = 0.2 GB");
        expect((await on.call("bomb", {}, { functionName: "live" })).json.result).toBe(true);
      },
    );
  }

  verifies(
    "seats.limits.memory",
    `behind ${isolation}, what a replica started counts, and memory that forks share counts once`,
    async (context) => {
      if (isolation !== "none") await requireOffered(isolation, context);
      // Each fork sees the 150 MB of its template: two of them would be far above the limit.
      const main = `held = b"x" * 150_000_000\n${HUNGRY}${HEADLESS}`;
      const toml = `${SMALL}[scaling]\nmin_replicas = 2\nmax_replicas = 2\n`;
      const on = await seated({ app: { main, toml } }, { isolation });
      for (const functionName of ["eat_below", "eat_headless"]) {
        await until("both are up", () => on.ready("app") === 2);
        const before = replicaIds(on);
        const { status, json } = await on.call("app", {}, { functionName });
        expect([functionName, status, json.code]).toEqual([functionName, ...OUT_OF_MEMORY]);
        expect(replicaIds(on).filter((id) => before.includes(id))).toHaveLength(1);
      }
    },
  );
}

verifies(
  "seats.limits.memory",
  "an app's own server that takes too much is ended, and starts again",
  async () => {
    const on = await seated({ app: serverApp({ toml: SMALL }, HUNGRY_SERVER) });
    expect((await on.call("app", {}, { functionName: "live" })).status).toBe(200);
    const { status, json } = await on.call("app", {}, { functionName: "eat" });
    expect([status, json.code]).toEqual(OUT_OF_MEMORY);
    expect((await on.call("app", {}, { functionName: "live" })).status).toBe(200);
  },
);

verifies("seats.limits.memory", "an app that takes too much at its import says so", async () => {
  const on = await seated({ app: { main: `${HUNGRY}\neat()\n`, toml: SMALL } });
  const { status, json } = await on.call("app", {}, { functionName: "live" });
  expect([status, json.code]).toEqual([503, "app_not_ready"]);
  expect(json.message).toContain("it used more than its memory = 0.2 GB");
});

verifies(
  "seats.limits.disk",
  "temporary files beyond max_scratch end their app's replica",
  async (context) => {
    await requireOffered("process", context);
    const flags = { isolation: "process", maxScratch: "30MB" };
    const on = await seated({ filler: { main: FILLER }, sibling: { main: GOOD } }, flags);
    const [answer, other] = await Promise.all([
      on.call("filler", { folder: "scratch" }, { functionName: "fill" }),
      on.call("sibling", { n: 1 }),
    ]);
    expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
    expect(answer.json.message).toContain("its temporary files took more than 30000000 bytes");
    expect(other.json.result).toBe(2);
    expect((await on.call("filler", {}, { functionName: "live" })).json.result).toBe(true);
  },
);

verifies("seats.limits.disk", "storage beyond max_project_storage ends whatever writes to it", async () => {
  const on = await seated({ filler: { main: FILLER } }, { maxProjectStorage: "30MB" });
  const answer = await on.call("filler", { folder: "storage" }, { functionName: "fill" });
  expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
  expect(answer.json.message).toContain("MILLRACE_MAX_PROJECT_STORAGE");
  // The storage of a seat is gone with it.
  expect((await on.call("filler", {}, { functionName: "live" })).json.result).toBe(true);
});
