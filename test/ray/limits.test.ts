import { afterAll, describe, expect } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { RayCluster } from "../support/ray/ray-cluster.ts";
import { rayService } from "../support/ray/ray-service.ts";
import { FILLER, HUNGRY, SMALL } from "../support/walls/greedy-apps.ts";
import { verifies } from "../verifies.ts";

const found = await RayCluster.find(process.env);
afterAll(async () => await found?.down());
const databases = testDatabases();

const NEIGHBOUR = "import os\ndef run(n):\n    return [n + 1, os.getpid()]\n";

describe.skipIf(found === null)("limits on Ray", () => {
  const ray = found!;

  verifies("ray.limits", "an app that takes too much is ended, and nothing else is", async () => {
    const apps = {
      bomb: { main: HUNGRY, toml: SMALL },
      filler: { main: FILLER },
      neighbour: { main: NEIGHBOUR },
    };
    const on = await rayService(ray, databases, apps, { isolation: "auto", maxScratch: "30MB" });
    const [, pid] = (await on.call("neighbour", { n: 0 })).json.result;
    const [supervisor] = await ray.supervisors();
    const state = { isOver: false };
    const greedy = Promise.all([
      on.call("bomb", {}, { functionName: "eat" }),
      on.call("filler", { folder: "scratch" }, { functionName: "fill" }),
    ]).finally(() => (state.isOver = true));
    for (let calls = 0; !state.isOver || calls < 20; calls++)
      expect((await on.call("neighbour", { n: calls })).json.result).toEqual([calls + 1, pid]);
    const [bomb, filler] = await greedy;
    expect([bomb.status, bomb.json.code]).toEqual([502, "out_of_memory"]);
    expect(bomb.json.message).toContain("it used more than its memory = 0.2 GB");
    expect([filler.status, filler.json.code]).toEqual([502, "app_crashed"]);
    expect(filler.json.message).toContain("MILLRACE_MAX_SCRATCH");
    // Both nodes live on, and so does what was started there for others.
    expect(await ray.supervisors()).toEqual([supervisor]);
    expect(await ray.nodes()).toHaveLength(2);
    for (const app of ["bomb", "filler"])
      expect((await on.call(app, {}, { functionName: "live" })).json.result).toBe(true);
  });
});
