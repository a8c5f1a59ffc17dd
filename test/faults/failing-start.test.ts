import { expect, test } from "vitest";
import { readFileSync } from "node:fs";
import path from "node:path";
import { rm, writeFile } from "node:fs/promises";
import { testPool } from "../support/pool.ts";
import { testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const BROKEN = `
import os

if os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "broken")):
    raise ValueError("the weights are not there")

def run():
    return 1
`;

verifies(
  "errors.app-not-ready",
  "an app whose import fails is 503 with the last traceback line, and serves again when the cause is gone",
  async () => {
    for (const fork of ["auto", "never"]) {
      const service = await testService();
      const { projectId } = service.service.owner;
      const broken = path.join(service.settings.dataDir, "storage", projectId, "broken");
      await service.deploy("app", { main: "def run():\n    return 0\n" });
      await writeFile(broken, "");
      const toml = `[deployment]\nfork = "${fork}"\n[scaling]\nmax_replicas = 8`;
      await service.deploy("app", { main: BROKEN, toml });
      const answers = await Promise.all(Array.from({ length: 20 }, () => service.call("app")));
      for (const answer of answers) {
        expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
        expect(answer.json.message).toBe("ValueError: the weights are not there");
        expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
      }
      // Twenty callers and eight starts are one failure: the gap before the next try is short.
      expect(
        Math.max(...answers.map(({ headers }) => Number(headers.get("retry-after")))),
      ).toBeLessThanOrEqual(2);
      await rm(broken);
      await until("it serves again", async () => (await service.call("app")).json.result === 1);
    }
  },
);

test("an app whose process ends at its import is refused, not waited for without end", async () => {
  for (const fork of ["auto", "never"]) {
    const main = "import os\nos._exit(3)\n";
    const toml = `[deployment]\nfork = "${fork}"\n[scaling]\nmax_replicas = 1`;
    const pool = await testPool({ main, toml });
    const outcome = await pool.submit("run", {}).ended;
    expect(outcome).toMatchObject({ kind: "refused", code: "app_not_ready" });
    expect(outcome.kind === "refused" && outcome.message).toContain("exit code 3");
  }
});

verifies(
  "replica.crash-loop",
  "a replica that ends by itself again and again is started with growing gaps",
  async () => {
    const main = `
import os
import threading
import time

with open("starts", "a") as starts:
    starts.write("%f\\n" % time.monotonic())
threading.Timer(0.05, os._exit, (1,)).start()

def run():
    return 1
`;
    const pool = await testPool({ main, toml: "[scaling]\nmin_replicas = 1\nmax_replicas = 1" });
    const starts = (): number[] =>
      readFileSync(path.join(pool.bundleDir, "starts"), "utf8").trim().split("\n").map(Number);
    await until("it was started five times", () => pool.has("starts") && starts().length >= 5);
    const gaps = starts().map((at, index, all) => at - (all[index - 1] ?? at));
    const [, first = 0, second = 0, third = 0, fourth = 0] = gaps;
    // Right away, then after half a second, one second, two seconds, each give or take a fifth.
    expect(second).toBeGreaterThan(0.4);
    expect(first).toBeLessThan(third);
    expect(third).toBeGreaterThan(0.8);
    expect(fourth).toBeGreaterThan(1.6);
  },
);

verifies(
  "replica.crash-loop",
  "calls that crash an app one after another meet growing gaps, and an answer ends them",
  async () => {
    const main = "import os\ndef run():\n    return 1\ndef die():\n    os._exit(1)\n";
    const pool = await testPool({ main, toml: "[scaling]\nmax_replicas = 1" });
    const diedAfterMs = async (): Promise<number> => {
      const startedAt = performance.now();
      expect((await pool.submit("die", {}).ended).kind).toBe("died");
      return performance.now() - startedAt;
    };
    await diedAfterMs();
    await diedAfterMs();
    expect(await diedAfterMs()).toBeGreaterThan(390);
    expect(await diedAfterMs()).toBeGreaterThan(790);
    expect(await pool.value("run", {})).toBe(1);
    await diedAfterMs();
    const startedAt = performance.now();
    expect(await pool.value("run", {})).toBe(1);
    expect(performance.now() - startedAt).toBeLessThan(390);
  },
);
