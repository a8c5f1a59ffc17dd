import { expect } from "vitest";
import { testPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os, subprocess, time

HELD = []

def burn():
    while not os.path.exists("go"):
        pass
    return "burnt"

def leave_burning():
    subprocess.run(["sh", "-c", "while [ ! -e go ]; do :; done &"])
    return "left"

def keep(megabytes):
    HELD.append(b"x" * (megabytes * 1_000_000))
    return "kept"
`;

/** A tenth of a processor and of a gigabyte each; the calls alone never need a second replica. */
const toml = (metric: string, target: number): string => `
[hardware]
cpu = 0.1
memory = 0.1
[scaling]
max_replicas = 2
replica_concurrency = 8
cooldown = 600
scaling_metric = "${metric}"
scaling_target = ${target}
evaluation_interval_seconds = 1
`;

verifies(
  ["scaling.cpu", "scaling.hard-limits"],
  "a call that computes without end makes a second replica start",
  async () => {
    const test = await testPool({ main: MAIN, toml: toml("cpu_utilization", 20) });
    const burnt = test.value("burn", {});
    await until("there is a second replica", () => test.ready.length === 2);
    test.leave("go");
    expect(await burnt).toBe("burnt");
  },
);

verifies("scaling.cpu", "so does a process that a call has left behind", async () => {
  const test = await testPool({ main: MAIN, toml: toml("cpu_utilization", 20) });
  expect(await test.value("leave_burning", {})).toBe("left");
  await until("there is a second replica", () => test.ready.length === 2);
  test.leave("go");
});

verifies("scaling.memory", "a replica that holds more than its target makes a second one start", async () => {
  const test = await testPool({ main: MAIN, toml: toml("memory_utilization", 100) });
  expect(await test.value("keep", { megabytes: 100 })).toBe("kept");
  await until("there is a second replica", () => test.ready.length === 2);
});
