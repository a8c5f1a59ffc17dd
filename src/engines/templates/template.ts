import { z } from "zod";
import type { Socket } from "node:net";
import { KEEPER_GRACE_MS } from "../local/agent.ts";
import { describeExit, ended } from "../engine.ts";
import type { Exit, InitFailure, ReplicaStart, Started } from "../engine.ts";
import { type Clock, withTimeout } from "../../kit/clock.ts";
import { DEAD_BEATS, Heartbeat, HeartbeatTimer, STOPPED_TOO_LONG } from "../heartbeat.ts";
import { BadFrame, functions, initFailure, type Moves, parseJson, pid } from "../protocol.ts";
import { readFrames, WIRE_LIMITS } from "../protocol.ts";

const MAX_EXIT_CODE = 255;
const reason = z.string().max(1_000).nullable();
const id = z.string().max(WIRE_LIMITS.nameChars);
const LAST_WORDS_MS = 500;
/** How long a process may live after it closed its connection: its keeper has to end what it left behind. */
const END_PATIENCE_MS = 5_000;

const templateMessage = z.union([
  z.object({ ready: z.object({ pid, forks: z.boolean(), reason, functions }) }),
  z.object({ failed: initFailure }),
  z.object({ forked: z.object({ id }) }),
  z.object({ exited: z.object({ id, code: z.int().min(0).max(MAX_EXIT_CODE) }) }),
]);
type TemplateMessage = z.output<typeof templateMessage>;

export function parseTemplateMessage(line: Buffer): TemplateMessage {
  return parseJson("a line", templateMessage, line);
}

/** A template imports the app, then it forks or becomes a replica itself. While it forks it may be found dead. */
type TemplatePhase = "importing" | "forking" | "dead" | "ordinary" | "failed";

/** The messages that are legal in each phase. `ready` says whether the template forks. */
const TEMPLATE_MOVES: Moves<TemplatePhase, string> = {
  importing: { ready: "forking", failed: "failed" },
  forking: { forked: "forking", exited: "forking" },
  // One that wakes up may still fork. Those replicas are ignored.
  dead: { forked: "dead", exited: "dead" },
  ordinary: {},
  failed: {},
};

export type TemplateEvents = {
  /** It has imported the app; `forks` says whether it forks or becomes a replica. */
  onReady(forks: boolean): void;
  onIdle(): void;
  onFault(fault: string): void;
  /** It was found dead; it has not forked `unborn`. Called once. */
  onDead(why: string, unborn: readonly string[]): void;
  /** Its connection has closed: it is ending, and forks no more. */
  onLost(): void;
  /** An internal error while reading from it; it is being ended. */
  onError(error: unknown): void;
  /** Its process is gone, with every replica that it forked. */
  onGone(exit: Exit): void;
};

/** What a fork gets of its seat's GPUs: device files, and variables that tell of them. */
export type ForkGpus = {
  readonly files: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
};

/** A process that has imported the app and forks replicas of it. */
export class Template {
  readonly #process: Started;
  readonly #clock: Clock;
  readonly #events: TemplateEvents;
  readonly #children = new Map<string, (exit: Exit) => void>();
  /** Replicas that it was asked to fork and has not. */
  readonly #unborn = new Set<string>();
  /** Checked while it owes a fork, whose announcement proves that it is alive. */
  readonly #heartbeat: Heartbeat;
  readonly #timer: HeartbeatTimer;
  readonly #importTimer: HeartbeatTimer;
  /** How often in a row its import was seen to be stopped. */
  #stoppedChecks = 0;
  #pid = 0;
  #hostPid: number | null = null;
  #phase: TemplatePhase = "importing";
  #home: Socket | null = null;
  #initFailure: InitFailure | null = null;
  #hasFailed = false;
  #isClosing = false;
  readonly #homeClosed = Promise.withResolvers<void>();

  constructor(process: Started, clock: Clock, events: TemplateEvents) {
    this.#process = process;
    this.#clock = clock;
    this.#events = events;
    this.#heartbeat = new Heartbeat({
      ping: () => {},
      look: () => process.vitals(this.#pid),
      onSilence: () => {},
      onDead: (why) => this.#giveUp(why),
    });
    this.#timer = new HeartbeatTimer(clock, () => this.#heartbeat.check());
    this.#importTimer = new HeartbeatTimer(clock, () => this.#checkImport());
    this.#importTimer.start();
    this.#outlive().catch((error: unknown) => events.onError(error));
  }

  get hasChildren(): boolean {
    return this.#children.size > 0;
  }

  /** Takes the template's connection, with its process id on the host if that is known. */
  attach(socket: Socket, pid: number | null = null): void {
    this.#home = socket;
    this.#hostPid = pid;
    socket.once("close", () => {
      this.#homeClosed.resolve();
      this.#lose().catch((error: unknown) => this.#events.onError(error));
    });
    readFrames(
      socket,
      WIRE_LIMITS.helloBytes,
      () => this.#hasFailed,
      (line) => this.#hear(parseTemplateMessage(line)),
      (error) => this.#fail(error),
    );
    socket.resume();
  }

  /** Forks a replica, which connects home with `ticket`. In a seat with GPUs it gets only those of `gpus`. */
  fork({ id, ticket }: ReplicaStart, gpus: ForkGpus | null = null): Started {
    const exited = new Promise<Exit>((resolve) => this.#children.set(id, resolve));
    this.#say({ fork: { id, ticket, ...(gpus && { gpus }) } });
    if (this.#unborn.size === 0) this.#expectForked();
    this.#unborn.add(id);
    let isAsked = false;
    const kill = (): void => {
      if (!isAsked) this.#end(id, exited);
      isAsked = true;
    };
    const obstacle = () => (this.#unborn.has(id) ? "the app's template has not answered" : null);
    const vitals = (pid: number) => this.#process.vitals(pid);
    const usage = (pid: number) => this.#process.usage(pid);
    // A dead template may still have it when its end was given up.
    const gone = exited.then(async () => void (this.#phase === "dead" && (await this.#process.exited)));
    return { exited, kill, vitals, usage, obstacle, gone };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#importTimer.stop();
    this.#process.kill();
    await this.#process.exited;
  }

  /** First through its keeper, then directly; if the template does not react, together with the template. */
  #end(replicaId: string, exited: Promise<Exit>): void {
    if (this.#phase === "dead") {
      // A dead template cannot report ends, and killing it would kill its other replicas. It ends with the last one.
      this.#reap(replicaId, ended("stopped together with its dead template"));
      return;
    }
    this.#say({ kill: replicaId });
    const steps = [
      this.#clock.after(KEEPER_GRACE_MS, () => this.#say({ end: replicaId })),
      this.#clock.after(2 * KEEPER_GRACE_MS, () => this.#process.kill()),
    ];
    void exited.finally(() => steps.forEach((step) => step.cancel()));
  }

  #say(message: object): void {
    this.#home?.write(`${JSON.stringify(message)}\n`);
  }

  #hear(message: TemplateMessage): void {
    const [word = ""] = Object.keys(message);
    const next = TEMPLATE_MOVES[this.#phase][word];
    if (!next) throw new BadFrame(`"${word}" out of turn`);
    this.#phase = next;
    this.#importTimer.stop();
    if ("ready" in message) {
      const { forks, pid } = message.ready;
      this.#pid = this.#hostPid ?? pid;
      if (!forks) this.#phase = "ordinary";
      this.#events.onReady(forks);
    } else if ("failed" in message) this.#initFailure = message.failed;
    else if ("forked" in message) this.#hearOf(message.forked.id);
    else {
      const { id, code } = message.exited;
      if (this.#children.has(id)) this.#reap(id, ended(describeExit(code, null)));
      else if (this.#phase !== "dead") throw new BadFrame(`"exited" for a replica that it never forked`);
    }
  }

  #reap(replicaId: string, exit: Exit): void {
    this.#children.get(replicaId)?.(exit);
    this.#children.delete(replicaId);
    if (this.#children.size > 0) return;
    if (this.#phase === "dead") this.#process.kill();
    else this.#events.onIdle();
  }

  /** An import may be silent for long, but not stopped: it would keep its GPUs until the initialization timeout. */
  #checkImport(): void {
    // It has told no id yet: 0 is the program that its agent keeps.
    const isStopped = this.#process.vitals(this.#pid)?.isStopped ?? false;
    this.#stoppedChecks = isStopped ? this.#stoppedChecks + 1 : 0;
    if (this.#stoppedChecks < DEAD_BEATS) return;
    this.#importTimer.stop();
    this.#initFailure = {
      message: `The import did not end: ${STOPPED_TOO_LONG}.`,
      traceback: STOPPED_TOO_LONG,
    };
    this.#process.kill();
  }

  /** It was just asked to fork: the next check is the first of its silence. */
  #expectForked(): void {
    this.#heartbeat.hear();
    this.#heartbeat.check();
    this.#heartbeat.check();
    this.#timer.start();
  }

  #hearOf(replicaId: string): void {
    if (!this.#unborn.delete(replicaId) && this.#phase !== "dead")
      throw new BadFrame(`"forked" for a replica that it was not told to fork`);
    this.#timer.stop();
    if (this.#unborn.size > 0) this.#expectForked();
  }

  /** It is stopped, or hangs. It is ended once it has no replica. */
  #giveUp(why: string): void {
    this.#phase = "dead";
    this.#timer.stop();
    const unborn = [...this.#unborn];
    this.#unborn.clear();
    this.#events.onDead(why, unborn);
    for (const replicaId of unborn) {
      this.#children.get(replicaId)?.(ended(why));
      this.#children.delete(replicaId);
    }
    if (this.#children.size === 0) this.#process.kill();
  }

  #fail(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#importTimer.stop();
    if (error instanceof BadFrame) this.#events.onFault(error.message);
    else this.#events.onError(error);
    this.#home?.destroy();
    this.#process.kill();
  }

  /** Its connection has closed: it is ending, or is a replica now. Otherwise it is ended: it could not be told anything. */
  async #lose(): Promise<void> {
    if (this.#phase === "ordinary" || this.#hasFailed) return;
    // The ends of its replicas may be noticed before its own.
    if (this.#phase === "forking" && !this.#isClosing) this.#events.onLost();
    const exit = await withTimeout(END_PATIENCE_MS, this.#process.exited, this.#clock);
    if (!exit && !this.#isClosing) this.#fail(new BadFrame("it closed its connection"));
  }

  async #outlive(): Promise<void> {
    const exit = await this.#process.exited;
    // The reason of a failed import may still be unread.
    await withTimeout(LAST_WORDS_MS, this.#homeClosed.promise, this.#clock);
    this.#timer.stop();
    this.#importTimer.stop();
    this.#isClosing = true;
    // The end of a remote connection may never arrive.
    this.#home?.destroy();
    for (const resolve of this.#children.values()) resolve(ended("its template ended"));
    this.#children.clear();
    this.#events.onGone({ ...exit, initFailure: exit.initFailure ?? this.#initFailure });
  }
}
