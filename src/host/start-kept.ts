import { spawn } from "node:child_process";
import type { ChildProcess, StdioOptions } from "node:child_process";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "../kit/clock.ts";
import { keeperEnd } from "./end-keeper.ts";
import type { LimitGroup } from "./limits/limits.ts";

/** How to start a keeper, and what the process under it is given. */
export type KeptStart = {
  /** The interpreter that becomes the keeper: an absolute path. */
  readonly python: string;
  /** Its options, the code that makes it a keeper, and the arguments of that. */
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** What it reads from that descriptor, for data that must not appear on a command line; null for nothing. */
  readonly input: { readonly descriptor: 0 | 3; readonly text: string } | null;
};

/** A keeper that was started, with everything below it. */
export type Kept = {
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** How the keeper ended, which is how its ward ended; rejects if the interpreter could not be run. */
  readonly exited: Promise<KeptExit>;
  /** Ends it and everything below it, at once. */
  end(): void;
  /** Closes its pipes: nothing more is read from it. */
  close(): void;
};

type KeptExit = { readonly code: number | null; readonly signal: string | null };

/**
 * Starts a process under a keeper of its own. Every process that runs what an app brings starts here: replicas,
 * templates, steps of builds, file runs. When it exits, when it is ended and when the service dies, all it
 * started dies too, daemons included. It is in its group before it is given its input. Throws if the process cannot be
 * created at all.
 */
export function startKept(
  { python, args, cwd, env, input }: KeptStart,
  clock: Clock,
  group: LimitGroup | null = null,
): Kept {
  const child: ChildProcess = spawn(python, [...args], {
    cwd,
    env: { ...env },
    stdio: descriptors(input),
    // A session of its own: Ctrl-C at the service's terminal is for the service alone.
    detached: true,
  });
  const { stdout, stderr } = child;
  // Without descriptors left it has no pipes, whatever its type says.
  if (!stdout || !stderr) {
    child.once("error", () => {});
    throw new Error("no descriptors are left");
  }
  const reader = input && (child.stdio[input.descriptor] as Writable);
  reader?.on("error", () => {}); // It died before it read: its exit tells.
  const give = (): void => void reader?.end(input?.text);
  const isIn = group && child.pid !== undefined ? group.add(child.pid) : null;
  if (!isIn) give();
  const exited = new Promise<KeptExit>((resolve, reject) => {
    // `exit`, not `close`: something the app started may hold the pipes open.
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", reject);
    isIn?.then(give, (error: unknown) => {
      child.kill("SIGKILL");
      reject(error);
    });
  });
  return {
    pid: child.pid ?? 0,
    stdout,
    stderr,
    exited,
    end: keeperEnd(child, exited, clock),
    close: () => [stdout, stderr, reader].forEach((pipe) => pipe?.destroy()),
  };
}

function descriptors(input: KeptStart["input"]): StdioOptions {
  if (input === null) return ["ignore", "pipe", "pipe"];
  return input.descriptor === 0 ? ["pipe", "pipe", "pipe"] : ["ignore", "pipe", "pipe", "pipe"];
}

/** For people. A keeper tells its ward's signal as 128 + its number. */
export function describeExit(code: number | null, signal: string | null): string {
  if (signal) return `killed by ${signal}`;
  if (code !== null && code > 128) {
    const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
    if (name) return `killed by ${name}`;
  }
  return `exit code ${code}`;
}
