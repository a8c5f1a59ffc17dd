import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { serveApps, type ServedApps } from "../../support/serve-apps.ts";
import { verifies } from "../../verifies.ts";

const CALLS = 1_000;
const FILLER = "x".repeat(8_192);
/** In KiB. */
const MIB = 1024;

const MAIN = `
import os
import threading
import time

LOCK = threading.Lock()
NOW = {"running": 0}

def run(n, filler):
    with LOCK:
        NOW["running"] += 1
        seen = NOW["running"]
    time.sleep(0.002 * (n % 3))
    with LOCK:
        NOW["running"] -= 1
    return {"n": n, "seen": seen, "pid": os.getpid()}
`;

/** What a process holds in memory now, or held at most, in KiB. */
function memoryOf(pid: number, line: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${line}:\\s+(\\d+)`, "m").exec(status)?.[1]);
}

/** Calls 1,000 times at once; every call has to get its own answer, within the app's limits. */
async function flood(service: ServedApps, app: string, concurrency: number): Promise<void> {
  const answers = await Promise.all(
    Array.from({ length: CALLS }, (_, n) => service.call(app, "run", { n, filler: FILLER })),
  );
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  const results = answers.map(({ json }) => json.result);
  expect(results.map(({ n }) => n)).toEqual(Array.from({ length: CALLS }, (_, n) => n));
  expect(new Set(results.map(({ pid }) => pid)).size).toBeLessThanOrEqual(2);
  const seen = Math.max(...results.map(({ seen }) => seen));
  expect(seen).toBeLessThanOrEqual(concurrency);
}

verifies(
  "show.1000-calls",
  "1,000 calls at once on two replicas are all answered, within replica_concurrency and bounded memory",
  async () => {
    const toml = "[scaling]\nmax_replicas = 2";
    const service = await serveApps({
      single: { main: MAIN, toml },
      shared: { main: MAIN, toml: `${toml}\nreplica_concurrency = 4` },
    });
    const { pid } = service.command;
    const before = memoryOf(pid, "VmRSS");
    await flood(service, "single", 1);
    // 8 MiB of bodies and 1,000 connections: anything near this bound would be kept many times over.
    expect(memoryOf(pid, "VmHWM") - before).toBeLessThan(120 * MIB);
    await flood(service, "shared", 4);
    const afterTwo = memoryOf(pid, "VmRSS");
    await flood(service, "single", 1);
    expect(memoryOf(pid, "VmRSS") - afterTwo).toBeLessThan(40 * MIB);
    expect(await service.command.interrupt()).toBe(0);
  },
);
