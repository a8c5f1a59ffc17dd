import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import type { AppLimits } from "../../../src/host/limits/limits.ts";
import { runKept } from "../../../src/host/run-kept.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

verifies("walls.limits.once", "a program without walls begins only once it is in its group", async () => {
  const python = await findInterpreter("python3");
  const cwd = scratchDirectory();
  const entered = Promise.withResolvers<void>();
  let pid = 0;
  const group = {
    add: (added: number): Promise<void> => {
      pid = added;
      return entered.promise;
    },
    ranOut: () => false,
    remove: () => {},
  };
  const host: AppLimits = {
    enforcement: null as never,
    refusal: () => null,
    watch: () => () => {},
    group: () => group,
    close: () => Promise.resolve(),
  };
  const limits = { memoryBytes: null, cpus: null, cpuShare: 1 };
  const ended = runKept(
    python.path,
    {
      program: "/bin/sh",
      args: ["-c", "echo begun > begun"],
      cwd,
      env: {},
      onLine: () => {},
      walls: null,
      held: { host, limits, folders: { scratch: null, storage: null } },
    },
    new AbortController().signal,
  );
  const hasBegun = (): boolean => existsSync(path.join(cwd, "begun"));
  const isWaiting = (): boolean => readFileSync(`/proc/${pid}/wchan`, "latin1").includes("poll");
  await until("the keeper waits", () => hasBegun() || isWaiting());
  expect(hasBegun()).toBe(false);
  entered.resolve();
  expect((await ended).code).toBe(0);
  expect(hasBegun()).toBe(true);
});
