import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import type { FolderName, LimitGroup } from "../../host/limits/limits.ts";
import { startOf } from "../../host/interpreter.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import { NOTHING_SAID, parseAgentMessage, Questions } from "../agent/agent-messages.ts";
import type { Ending } from "../agent/agent-messages.ts";
import { readFrames } from "../protocol.ts";
import { packPlan, type Plan } from "./plan.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { below, isEmpty, killNow, withPipes } from "../../host/processes.ts";

export type AgentExit = Ending & { readonly code: number | null; readonly signal: string | null };

type AgentStart = {
  /** The host's interpreter, an absolute path; never one that an app brings. */
  readonly python: string;
  /** Identifies the processes of a data directory. Nothing is imported from there. */
  readonly cwd: string;
  readonly module: "local" | "watch";
  readonly input: string;
  /** The agent joins it before it gets its input. */
  readonly group?: LimitGroup | null;
  /** A watched folder is too full. A watch does not end the processes that write to it. */
  readonly onFull?: (name: FolderName) => void;
};

const CHANNEL = 3;
const MAX_LINE_BYTES = 64 * 1024;
/** How far an agent's last messages may lag behind its end. */
const LAST_WORDS_MS = 2_000;

/**
 * Starts an agent for a plan. Every process that runs code of an app starts here. All that it started, daemons included,
 * dies when it exits, when it is ended and when the service dies. Throws if the process cannot be created at all.
 */
export function startAgent(python: string, plan: Plan, clock: Clock, group: LimitGroup | null = null): Agent {
  const cwd = plan.walls?.reach.scratch ?? plan.cwd;
  return new Agent({ python, cwd, module: "local", input: packPlan(plan), group }, clock);
}

/** Starts an agent that watches processes which something else keeps. */
export function startWatch(start: Omit<AgentStart, "module" | "group">, clock: Clock): Agent {
  return new Agent({ ...start, module: "watch" }, clock);
}

/** An agent of this machine and the process that it keeps. */
export class Agent {
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** How it ended, and so its process; rejects if the interpreter could not be run. */
  readonly exited: Promise<AgentExit>;
  readonly questions: Questions;
  readonly #child: ChildProcess;
  readonly #channel: Socket;
  readonly #onFull: AgentStart["onFull"];
  readonly #clock: Clock;
  #ending: Ending = NOTHING_SAID;
  #isEnding = false;

  constructor({ python, cwd, module, input, group = null, onFull }: AgentStart, clock: Clock) {
    const child = withPipes(
      spawn(python, startOf(`millrace_agent.${module}`), {
        cwd,
        env: {},
        stdio: ["pipe", "pipe", "pipe", "pipe"],
        // A session of its own: Ctrl-C at the service's terminal is for the service alone.
        detached: true,
      }),
    );
    const [stdin, stdout, stderr] = child.stdio as [Writable, Readable, Readable, ...unknown[]];
    const channel = child.stdio[CHANNEL] as Socket;
    this.pid = child.pid ?? 0;
    this.stdout = stdout;
    this.stderr = stderr;
    this.#child = child;
    this.#channel = channel;
    this.#onFull = onFull;
    this.questions = new Questions(clock, (question) => this.#say(question));
    this.#clock = clock;
    this.exited = this.#outlive(stdin, input, group);
    // Nothing waits for the end of a watch, and one that cannot be started must not end the service.
    this.exited.catch(() => {});
  }

  /** Asks its process to end by itself. */
  askToEnd(): void {
    this.#say({ ask: {} });
  }

  /** Announces a replica, by its ticket, that has a memory limit of its own. */
  expectFork(ticket: string): void {
    this.#say({ fork: { ticket } });
  }

  /** Passes a file of the service, open for reading, to the process with this ticket. */
  lend(ticket: string, file: string): void {
    this.#say({ lend: { ticket, path: file } });
  }

  /**
   * Lets its processes open exactly these GPUs of its plan, by their device files. Changes nothing on levels without
   * namespaces, where a process keeps the GPUs that it started with. Also resolves if none of its processes is left.
   */
  async showGpus(files: readonly string[]): Promise<void> {
    try {
      await this.questions.show(files);
    } catch (error) {
      if (this.#channel.writable) throw error;
      // It ends, with everything below it.
      await this.exited.catch(() => {});
    }
  }

  /** Closes its pipes: nothing more is read from it. */
  close(): void {
    // Not the channel: an agent takes its end for the end of the service.
    for (const pipe of [this.stdout, this.stderr, this.#child.stdin]) pipe?.destroy();
  }

  /** Ends it and everything below it. An app can stop the agent, and a stopped process takes only SIGCONT and SIGKILL. */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#child.kill("SIGTERM");
    this.#child.kill("SIGCONT");
    const timer = this.#clock.after(KEEPER_GRACE_MS, () => void killTree(this.#child));
    const cancel = (): void => timer.cancel();
    this.exited.then(cancel, cancel);
  }

  #say(message: object): boolean {
    const { writable } = this.#channel;
    if (writable) this.#channel.write(`${JSON.stringify(message)}\n`);
    return writable;
  }

  #listen(): Promise<void> {
    const channel = this.#channel;
    const hear = (line: Buffer): void => {
      const message = parseAgentMessage(line);
      if ("seen" in message) this.questions.answer(message.seen);
      else if ("at" in message) this.questions.answer(message.at);
      else if ("shown" in message) this.questions.answer(message.shown);
      else if ("full" in message) this.#onFull?.(message.full);
      else this.#ending = message.exited;
    };
    channel.on("error", () => {});
    readFrames(
      channel,
      MAX_LINE_BYTES,
      () => channel.destroyed,
      hear,
      () => {
        // An agent never says that, so something else has.
        this.#child.kill("SIGKILL");
        channel.destroy();
      },
    );
    return new Promise((resolve) => void channel.once("close", () => resolve()));
  }

  async #outlive(stdin: Writable, input: string, group: LimitGroup | null): Promise<AgentExit> {
    const child = this.#child;
    const heard = this.#listen();
    stdin.on("error", () => {}); // It died before it read: its exit tells.
    const { promise, resolve, reject } = Promise.withResolvers<Pick<AgentExit, "code" | "signal">>();
    // `exit`, not `close`: something the app started may hold the pipes open.
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", reject);
    const begin = async (): Promise<void> => {
      if (group && this.pid > 0) await group.add(this.pid);
      stdin.end(input);
    };
    begin().catch((error: unknown) => {
      child.kill("SIGKILL");
      reject(error);
    });
    try {
      const exit = await promise;
      await withTimeout(LAST_WORDS_MS, heard, this.#clock);
      return { ...exit, ...this.#ending };
    } finally {
      this.questions.giveUp();
      this.#channel.destroy();
    }
  }
}

/** How long a keeper may take to kill the processes below it; then the service does. */
export const KEEPER_GRACE_MS = 5_000;
/** A killed process takes a moment to disappear. */
const PAUSE_MS = 10;
/** Two seconds: past that something forks faster than it is killed, or the kernel holds it. */
const MAX_ROUNDS = 200;

/**
 * The keeper goes last: while it lives, it adopts orphans, which are found there. It is stopped so that it reaps no child
 * meanwhile: the kernel leaves some out of a list of children that grows shorter while it is read.
 */
async function killTree(keeper: ChildProcess): Promise<void> {
  if (!isOver(keeper)) keeper.kill("SIGSTOP");
  let before = below(keeper.pid ?? 0);
  for (let round = 0; round < MAX_ROUNDS && !isOver(keeper); round++) {
    for (const pid of before.living) killNow(pid);
    await sleep(PAUSE_MS);
    const now = below(keeper.pid ?? 0);
    if (isEmpty(before, now)) break;
    before = now;
  }
  if (!isOver(keeper)) keeper.kill("SIGKILL");
}

function isOver({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid === undefined || exitCode !== null || signalCode !== null;
}
