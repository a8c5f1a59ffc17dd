import { describe, expect, test } from "vitest";
import { readSources } from "../support/source-files.ts";
import { type Allowance, brokenRules, needlessAllowances } from "../support/test-rules.ts";

/** Held to no rule: what is about figures and measures for minutes, and what quotes the faults it looks for. */
const LEFT_OUT = [
  "test/cluster/",
  "test/kubernetes/show/",
  "test/scale/",
  "test/soak/",
  "test/walls/hosts.test.ts",
  "test/walls/neighbours.test.ts",
  "test/unit/test-rules.test.ts",
  "test/support/test-rules.ts",
];

const ALLOWED: readonly Allowance[] = [
  { file: "test/support/browser.ts", rule: "deadline", why: "none: the browser's own is turned off" },
  {
    file: "test/support/until.ts",
    rule: "sleep",
    why: "the one wait for states that tell nobody of themselves: a row, a file, the end of a process",
  },
  { file: "test/support/clocks.ts", rule: "sleep", why: "a clock that skips time also lets it pass" },
  { file: "test/support/clocks.ts", rule: "stopwatch", why: "it is a clock" },
  { file: "test/support/held-clock.ts", rule: "sleep", why: "it lets time pass while nobody holds it" },
  { file: "test/support/held-clock.ts", rule: "stopwatch", why: "it is a clock" },
  {
    file: "test/support/webhook-target.ts",
    rule: "sleep",
    why: "a target that drips its answer: no test waits for that",
  },
  { file: "test/support/webhook-target.ts", rule: "stopwatch", why: "tells when a request came" },
  {
    file: "test/support/crowd.ts",
    rule: "sleep",
    why: "a crowd that comes back at its own pace: no test waits for that",
  },
  {
    file: "test/support/greedy-project.ts",
    rule: "sleep",
    why: "asks again a while after a refusal, as clients do: no test waits for that",
  },
  {
    file: "test/support/fault-callers.ts",
    rule: "sleep",
    why: "callers and an operator who come at their own pace: no test waits for that",
  },
  {
    file: "test/support/fault-callers.ts",
    rule: "stopwatch",
    why: "calls per second during a fault and before it, in turns; only the full form has a bound",
  },
  {
    file: "test/support/neighbor.ts",
    rule: "stopwatch",
    why: "how much slower one service is than another in the same breath; only the full form has a bound",
  },
  {
    file: "test/ray/load.test.ts",
    rule: "stopwatch",
    why: "tells how long Ray takes, for docs/ray.md; nothing depends on it",
  },
  {
    file: "test/thorough/bench/load.test.ts",
    rule: "sleep",
    why: "a server that takes its time: the load generator is to measure it",
  },
  {
    file: "test/thorough/bench/load.test.ts",
    rule: "stopwatch",
    why: "the load generator's stopwatch is held against the server's own, over the same calls",
  },
  {
    file: "test/thorough/bench/async-dispatch.test.ts",
    rule: "stopwatch",
    why: "makes up the times that a run's result tells, for a stopwatch to read",
  },
  {
    file: "test/thorough/bench/stream-load.test.ts",
    rule: "stopwatch",
    why: "makes up the time that a message tells, for a stopwatch to read",
  },
  {
    file: "test/thorough/gateway/check-json-off-thread.test.ts",
    rule: "memory",
    why: "what another thread keeps is seen in the size of the process alone; the bound is far from both sides",
  },
  {
    file: "test/integration/gateway/connections.test.ts",
    rule: "sleep",
    why: "a client that drips its head: no test waits for that",
  },
  {
    file: "test/integration/gateway/stream-pace.test.ts",
    rule: "sleep",
    why: "a function of an app, in Python",
  },
  {
    file: "test/integration/webhooks/attempt.test.ts",
    rule: "sleep",
    why: "a target that drips its answer: no test waits for that",
  },
  {
    file: "test/support/cancel-storm.ts",
    rule: "sleep",
    why: "cancels come at random moments: no test waits for one",
  },
  {
    file: "test/support/dashboard-site.ts",
    rule: "deadline",
    why: "of the picture of a page that failed: a page that cannot be drawn is not to hide the failure",
  },
  {
    file: "test/support/hostile/callers.ts",
    rule: "sleep",
    why: "callers who leave at random, and come back as late as they were told to",
  },
  { file: "test/support/hostile/peer.ts", rule: "sleep", why: "a process that gives up at a random moment" },
  {
    file: "test/support/hostile/service.ts",
    rule: "sleep",
    why: "a service that reports of itself, in a process of its own",
  },
  {
    file: "test/support/hostile/service.ts",
    rule: "memory",
    why: "the promise is about the size of the whole process, and it is a process of its own",
  },
  {
    file: "test/unit/apps/bundles/extract.test.ts",
    rule: "sleep",
    why: "looks as often as it can, for a state that passes: the work that it looks at takes many more turns",
  },
  {
    file: "test/unit/engines/log-lines.test.ts",
    rule: "sleep",
    why: "counts the turns that others get: nothing waits for it",
  },
];

const files = new Map(
  [...readSources(["test"], [".ts"])].filter(([file]) => !LEFT_OUT.some((start) => file.startsWith(start))),
);

describe("the tests as they stand", () => {
  test("none is tried twice, sleeps, holds a stopwatch, has a deadline of its own or measures the process", () => {
    expect(files.size).toBeGreaterThan(100);
    expect(brokenRules(files, ALLOWED)).toEqual([]);
  });

  test("every allowance is made use of, and says why", () => {
    expect(needlessAllowances(files, ALLOWED)).toEqual([]);
    expect(ALLOWED.filter(({ why }) => why.length < 10)).toEqual([]);
  });
});

describe("the rules find planted faults", () => {
  test.each([
    ["second-try", 'test("x", { retry: 1 }, fn);'],
    ["sleep", "await new Promise((resolve) => setTimeout(resolve, 50));"],
    ["sleep", 'import { setTimeout as pause } from "node:timers/promises";'],
    ["sleep", "await sleep(100);"],
    ["sleep", "const timer = setInterval(look, 10);"],
    ["stopwatch", "const from = performance.now();"],
    ["stopwatch", "const from = process.hrtime.bigint();"],
    ["stopwatch", "expect(Date.now() - from).toBeLessThan(100);"],
    ["deadline", "await fetch(url, { signal: AbortSignal.timeout(500) });"],
    ["deadline", "  }, 120_000);"],
    ["deadline", "  },\n  240_000,\n);"],
    ["deadline", "execFileSync(pip, [], { timeout: 50_000 });"],
    ["memory", "expect(process.memoryUsage().rss - before).toBeLessThan(1e6);"],
  ])("%s: %s", (rule, line) => {
    const planted = new Map([["test/planted.test.ts", `import x from "x";\n${line}\n`]]);
    expect(brokenRules(planted, [])).toEqual([expect.stringContaining(`test/planted.test.ts:2: ${rule}: `)]);
    const allowed = { file: "test/planted.test.ts", rule, why: "planted" } as Allowance;
    expect(brokenRules(planted, [allowed])).toEqual([]);
  });

  test("what an app does in Python, and what a comment quotes, are no faults", () => {
    const fine = "// setTimeout(x, 1)\nconst MAIN = `\ntime.sleep(1)\nawait asyncio.sleep(0)\n`;\n";
    expect(brokenRules(new Map([["test/fine.test.ts", fine]]), [])).toEqual([]);
  });

  test("an allowance that nothing needs is found", () => {
    const allowed = { file: "test/fine.test.ts", rule: "sleep", why: "once it did" } as const;
    expect(needlessAllowances(new Map([["test/fine.test.ts", ""]]), [allowed])).toEqual([
      "test/fine.test.ts: sleep",
    ]);
  });
});
