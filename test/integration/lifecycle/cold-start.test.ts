import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { processesIn } from "../../support/leak-check.ts";
import { isAlive, parentOf } from "../../support/process-tree.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

// What the starts cost, told by what they do; `npm run bench cold` tells how long they take.

const MAIN = `${HOLDING_APP}
with open("imports", "a") as imports:
    imports.write("%d\\n" % os.getpid())
`;

const COOLDOWN_MS = 600_000;
const toml = `[scaling]\nmax_replicas = 8\ncooldown = ${COOLDOWN_MS / 1000}\n`;

/** The processes that have imported the app, in order. */
function imports(bundleDir: string): number[] {
  const lines = readFileSync(path.join(bundleDir, "imports"), "utf8").trimEnd().split("\n");
  return lines.map(Number);
}

verifies(
  "show.cold.first",
  "the first call ever starts an agent and one interpreter, which imports main.py once",
  async () => {
    const test = await testService({ app: { main: MAIN, toml } }, WITHOUT_WALLS);
    const pid = Number((await test.call("app")).json.result);
    const bundleDir = test.bundleDir("app");
    expect(imports(bundleDir)).toHaveLength(1);
    // The keeper, the template and the replica are forks of one start: what was executed is the same for all.
    const processes = processesIn(bundleDir);
    expect(processes.map((process) => process.pid)).toContain(pid);
    expect(new Set(processes.map(({ command }) => command)).size).toBe(2);
  },
);

verifies(
  ["show.cold.template", "show.cold.scale-out"],
  "with a kept template neither a start from zero nor 1 to 8 replicas import anything again",
  async () => {
    const clock = new SkippingClock();
    const test = await testService({ app: { main: MAIN, toml } }, WITHOUT_WALLS, { clock });
    const first = Number((await test.call("app")).json.result);
    const { pool } = test.apps.get("app")!;
    const bundleDir = test.bundleDir("app");
    const [template] = imports(bundleDir);
    const templateOf = (pid: number): number => parentOf(parentOf(pid));
    expect(templateOf(first)).toBe(template);

    clock.skip(COOLDOWN_MS + 1_000);
    await until("no replica is left", () => !isAlive(first) && pool.replicas.size === 0);
    const second = Number((await test.call("app")).json.result);
    expect([second === first, templateOf(second)]).toEqual([false, template]);

    const held = Array.from({ length: 8 }, () => test.call("app", {}, { functionName: "hold" }));
    await until("eight are ready", () => test.ready("app") === 8);
    const pids = [...pool.replicas].map((replica) => replica.pid);
    expect(pids.map(templateOf)).toEqual(pids.map(() => template));
    writeFileSync(path.join(bundleDir, "go"), "");
    const answers = (await Promise.all(held)).map(({ json }) => Number(json.result));
    expect(new Set(answers)).toEqual(new Set(pids));
    expect(imports(bundleDir)).toEqual([template]);
  },
);
