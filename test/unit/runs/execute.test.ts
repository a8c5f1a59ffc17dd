import { expect, test } from "vitest";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { UuidSource } from "../../../src/kit/ids.ts";
import { Executor } from "../../../src/runs/execute.ts";
import type { LiveRun, RunParts, RunRequest } from "../../../src/runs/live-run.ts";
import type { RunTarget } from "../../../src/replicas/pool.ts";
import { HandClock } from "../../support/clocks.ts";

const TARGET: RunTarget = {
  projectId: "p-00000000",
  appName: "app",
  appNumber: 1,
  versionId: "version",
  // Nothing is ever handed over: the runs stay under way until the test ends them.
  slots: { submit: () => {}, abandon: (call, outcome) => call.end(outcome), backlogRoom: 0 },
  config: readAppConfig({ host: { cpuCount: 2 } }).config,
  hidden: { input: false, result: false },
};
const READER = { onStream: () => {}, onChunk: () => {}, onEnd: () => {} };
const CLAIM = {
  owner: "owner",
  fence: 1,
  isAsync: true,
  attempt: 1,
  interruptions: 0,
  createdAt: 0,
  keyHash: null,
  storedEvents: 0,
};

test("a run is found by its id among any number, until its end is written down", () => {
  const recorder = { record: (run: LiveRun) => run.settle() };
  // oxlint-disable-next-line no-unsafe-type-assertion
  const executor = new Executor({ clock: new HandClock() } as unknown as RunParts, recorder, recorder);
  const ids = new UuidSource();
  const request = (appNumber: number): RunRequest => ({
    id: ids.next(1),
    target: { ...TARGET, appNumber },
    functionName: "run",
    body: Buffer.alloc(0),
    isBare: false,
    ip: null,
    caller: null,
    webhook: null,
  });
  const light = Array.from({ length: 3_000 }, () => executor.execute(request(1), READER));
  const claimed = Array.from({ length: 100 }, () => executor.executeClaimed(request(2), CLAIM, READER));
  const all = [...light, ...claimed];
  expect(all.filter((run) => executor.find(run.request.id) !== run)).toEqual([]);
  expect(executor.claimed()).toEqual(new Set(claimed.map((run) => run.request.id)));
  // In another order than they came: each third, then the rest of the first half.
  const over = new Set([...all.filter((_, n) => n % 3 === 0), ...all.slice(0, all.length / 2)]);
  for (const run of over) run.cancel();
  expect(all.filter((run) => executor.find(run.request.id) !== (over.has(run) ? undefined : run))).toEqual(
    [],
  );
  const left = claimed.filter((run) => !over.has(run)).map((run) => run.request.id);
  expect(executor.claimed()).toEqual(new Set(left));
  for (const id of ["", "x", "\u{1F600}", ids.next(2)]) expect(executor.find(id)).toBeUndefined();
});

test("who waits for a run learns when it begins, or when nobody waits any more", async () => {
  const recorder = { record: (run: LiveRun) => run.settle() };
  // oxlint-disable-next-line no-unsafe-type-assertion
  const executor = new Executor({ clock: new HandClock() } as unknown as RunParts, recorder, recorder);
  const left = new AbortController();
  const seen: string[] = [];
  const wait = async (id: string, signal: AbortSignal, name: string): Promise<void> => {
    await executor.begun(id, signal);
    seen.push(name);
  };
  const { signal } = new AbortController();
  const waits = [
    wait("one", signal, "first"),
    wait("one", signal, "second"),
    wait("two", left.signal, "left"),
  ];
  const request = { id: "one", target: TARGET, functionName: "run", body: Buffer.alloc(0), isBare: false };
  executor.executeClaimed({ ...request, ip: null, caller: null, webhook: null }, CLAIM, READER);
  await Promise.all(waits.slice(0, 2));
  expect(seen).toEqual(["first", "second"]);
  left.abort();
  await waits[2];
  expect(seen).toEqual(["first", "second", "left"]);
});
