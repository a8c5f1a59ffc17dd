import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { OUT_OF_MEMORY, expectBombEnds, greedySeats } from "../../support/remote/greedy-seats.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { FILLER, HEADLESS, HUNGRY, HUNGRY_SERVER, SMALL } from "../../support/walls/greedy-apps.ts";
import { requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

const replicaIds = (on: TestService): string[] => [...on.apps.get("app")!.pool.replicas].map(({ id }) => id);

for (const isolation of ["none", "userns"] as const) {
  // The first of the four is tried in every test run.
  for (const fork of isolation === "none" ? ["never"] : ["auto", "never"]) {
    verifies(
      "seats.limits.memory",
      `behind ${isolation}, with fork = ${fork}, a memory bomb is 502 out_of_memory, and its neighbour notices nothing`,
      async (context) => {
        if (isolation !== "none") await requireOffered(isolation, context);
        await expectBombEnds(databases, fork, isolation);
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
      const on = await greedySeats(databases, { app: { main, toml } }, { isolation });
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
    const on = await greedySeats(databases, { app: serverApp({ toml: SMALL }, HUNGRY_SERVER) });
    expect((await on.call("app", {}, { functionName: "live" })).status).toBe(200);
    const { status, json } = await on.call("app", {}, { functionName: "eat" });
    expect([status, json.code]).toEqual(OUT_OF_MEMORY);
    expect((await on.call("app", {}, { functionName: "live" })).status).toBe(200);
  },
);

verifies("seats.limits.memory", "an app that takes too much at its import says so", async () => {
  const on = await greedySeats(databases, { app: { main: `${HUNGRY}\neat()\n`, toml: SMALL } });
  const { status, json } = await on.call("app", {}, { functionName: "live" });
  expect([status, json.code]).toEqual([503, "app_not_ready"]);
  expect(json.message).toContain("it used more than its memory = 0.2 GB");
});

verifies("seats.limits.disk", "storage beyond max_project_storage ends whatever writes to it", async () => {
  const on = await greedySeats(databases, { filler: { main: FILLER } }, { maxProjectStorage: "30MB" });
  const answer = await on.call("filler", { folder: "storage" }, { functionName: "fill" });
  expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
  expect(answer.json.message).toContain("MILLRACE_MAX_PROJECT_STORAGE");
  // The storage of a seat is gone with it.
  expect((await on.call("filler", {}, { functionName: "live" })).json.result).toBe(true);
});
