import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import type { AppLimits } from "../../../src/host/limits/limits.ts";
import { runProgram } from "../../../src/engines/programs/run-program.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const isWaiting = (pid: number): boolean => readFileSync(`/proc/${pid}/wchan`, "latin1").includes("read");

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
    watched: () => ({ memoryBytes: null, folders: [], checksStorage: false }),
    noteStorage: () => {},
    describeFull: () => "",
    group: () => group,
    close: () => Promise.resolve(),
  };
  const limits = { memoryBytes: null, cpus: null, cpuShare: 1 };
  const ended = runProgram(
    python.path,
    {
      program: "/bin/sh",
      args: ["-c", "echo begun > begun"],
      cwd,
      env: {},
      onLine: () => {},
      walls: null,
      held: { host, limits, folders: { scratch: [], storage: null } },
    },
    new AbortController().signal,
  );
  const hasBegun = (): boolean => existsSync(path.join(cwd, "begun"));
  await until("the keeper waits", () => hasBegun() || isWaiting(pid));
  expect(hasBegun()).toBe(false);
  entered.resolve();
  expect((await ended).code).toBe(0);
  expect(hasBegun()).toBe(true);
});

/** A service whose groups let nobody in; it says which process waits for that. */
const SERVICE = `
import { runProgram } from "${REPOSITORY}/src/engines/programs/run-program.ts";
const [python, cwd] = process.argv.slice(1);
const add = (pid) => (console.log(pid), new Promise(() => {}));
const watched = () => ({ memoryBytes: null, folders: [], checksStorage: false });
const host = { group: () => ({ add, ranOut: () => false, remove() {} }), watched, noteStorage() {} };
const held = { host, limits: {}, folders: {} };
const program = { program: "/bin/sh", args: ["-c", "echo begun > begun"], cwd, env: {}, onLine() {}, walls: null, held };
await runProgram(python, program, new AbortController().signal);
`;

verifies(
  "walls.limits.once",
  "a program whose service dies before it is in its group does not begin",
  async () => {
    const python = await findInterpreter("python3");
    const cwd = scratchDirectory();
    const service = spawn(process.execPath, ["--input-type=module", "-e", SERVICE, python.path, cwd]);
    onTestFinished(() => void service.kill("SIGKILL"));
    const [said] = (await once(service.stdout, "data")) as [Buffer];
    const pid = Number(said);
    await until("the keeper waits", () => isWaiting(pid));
    service.kill("SIGKILL");
    await until("the keeper has ended", () => !existsSync(`/proc/${pid}`));
    expect(existsSync(path.join(cwd, "begun"))).toBe(false);
  },
);
