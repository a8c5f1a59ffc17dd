import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { LastWords, type ProgramEnd } from "../programs/run-program.ts";
import { describeRunOut } from "../../host/limits/limits.ts";
import { versionOfTag } from "../../host/interpreter.ts";
import { describeExit, type Exit, type Workload } from "../engine.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import type { LogStream } from "../../model/log-line.ts";
import { BuildSeatLost } from "../build-seats.ts";
import type { BuildFolder, BuildGround, BuildSeats, BuildStep, BuildWish, Builder } from "../build-seats.ts";
import type { BuildOrder, SeatMessage } from "./seat-messages.ts";
import { AgentSession, type RemoteParts, assignmentOf } from "./session.ts";

export type BuildSeatEvents = {
  /** Why it has not started yet, for people: whenever that changes. */
  onObstacle(why: string): void;
  onError(error: unknown): void;
};

type Done = Extract<SeatMessage, { readonly done: unknown }>["done"];

type OpenOrder = {
  readonly id: number;
  readonly message: BuildOrder;
  readonly onLine: (text: string, stream: LogStream) => void;
  readonly end: PromiseWithResolvers<Done>;
  printedChars: number;
};

/** Compilers need much, however little the app needs. */
const LEAST_MEMORY_BYTES = 4e9;
/** How often the place is asked why the seat has not started. */
const LOOK_MS = 1_000;
/** How long a place may take to tell why it has ended a seat. */
const WHY_MS = 10_000;
/** How long a folder may take to send nothing. */
const SILENCE_MS = 60_000;
/** For each order: an agent forwards 4 Mi of each stream, and then the last lines. Each line costs some characters more. */
const MAX_PRINTED_CHARS = 12 * 1024 * 1024;
const LINE_COST_CHARS = 64;

/** A seat that builds an environment: its agent carries out one order after the other. The build ends with it. */
export class BuildSeat implements Builder {
  readonly ground: Promise<BuildGround>;
  readonly #parts: RemoteParts;
  readonly #workload: Workload;
  readonly #events: BuildSeatEvents;
  readonly #signal: AbortSignal;
  readonly #session: AgentSession;
  readonly #ready = Promise.withResolvers<BuildGround>();
  readonly #ended = Promise.withResolvers<never>();
  readonly #blobs: Set<string | null>;
  readonly #starting: readonly Timer[];
  #hello = { python: "", tag: "" };
  #obstacle: string | null = null;
  #lastId = 0;
  #open: OpenOrder | null = null;
  #end: Error | null = null;
  readonly #onAbort = (): void => {
    const { reason } = this.#signal as { reason: unknown };
    this.#over(reason instanceof Error ? reason : new BuildSeatLost("the build was cancelled"));
  };

  constructor(
    parts: RemoteParts,
    workload: Workload,
    waitMs: number,
    clock: Clock,
    events: BuildSeatEvents,
    signal: AbortSignal,
  ) {
    this.#parts = parts;
    this.#workload = workload;
    this.#events = events;
    this.#signal = signal;
    this.#blobs = new Set([workload.version.bundleBlob]);
    this.ground = this.#ready.promise;
    // They may reject when no caller waits for them any more.
    for (const promise of [this.ground, this.#ended.promise]) promise.catch(() => undefined);
    this.#session = this.#begin(clock);
    this.#starting = [
      clock.every(LOOK_MS, () => this.#look()),
      clock.after(waitMs, () => this.#giveUp(waitMs)),
    ];
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
  }

  get id(): string {
    return this.#session.id;
  }

  uses(blob: string): boolean {
    return this.#blobs.has(blob);
  }

  #begin(clock: Clock): AgentSession {
    const { addresses, graceMs } = this.#parts;
    const workload = this.#workload;
    return new AgentSession(
      this.#parts,
      {
        workload,
        first: "hired",
        // No other service could continue a build.
        addresses: () => addresses().slice(0, 1),
        assignment: () => ({ ...assignmentOf({ workload, order: {}, server: null }, ""), build: true }),
        uses: (blob) => this.uses(blob),
        // An agent that knows the order already does not begin again.
        onConnected: () => this.#open && this.#session.say(this.#open.message),
        onMessage: (message) => this.#hear(message),
        onFault: (fault) => this.#lost(`broke the protocol: ${fault}`),
        onLost: () => this.#lost(`was lost: no word from it for ${graceMs / 1000} s; deploy again`),
        onExited: (exit) => this.#lost(this.#describeEnd(exit)),
        onPhase: () => {},
        onError: (error) => this.#events.onError(error),
      },
      null,
      clock,
    );
  }

  async run({ program, args, env, files = {}, onLine }: BuildStep): Promise<ProgramEnd> {
    const lastWords = new LastWords();
    const { code, isOutOfMemory } = await this.#do(
      (id) => ({ run: { id, program, args, env, files } }),
      (text, stream) => {
        onLine(text, stream);
        lastWords.take(text, stream);
      },
    );
    const detail = isOutOfMemory ? describeRunOut(this.#workload.limits) : describeExit(code, null);
    return { code, detail, lastWords: lastWords.text };
  }

  async take<Taken>(what: BuildFolder, use: (archive: Readable) => Promise<Taken>): Promise<Taken> {
    const { home } = this.#parts.listener.parts;
    const arrived = Promise.withResolvers<Socket>();
    const ticket = home.expect((_, socket) => {
      home.forget(ticket);
      arrived.resolve(socket);
    });
    const done = this.#do((id) => ({ give: { id, what, ticket } }));
    done.then(
      () => arrived.reject(new BuildSeatLost(`the ${what} did not come`)),
      (error: unknown) => arrived.reject(error),
    );
    try {
      const socket = await arrived.promise;
      socket.setTimeout(SILENCE_MS, () => socket.destroy());
      // The connection need not be the agent's, so it ends with the agent's order.
      for (const failed of [done, this.#ended.promise]) failed.catch(() => socket.destroy());
      try {
        const taken = await use(socket);
        // The agent starts nothing else before that.
        await done;
        return taken;
      } catch (error) {
        // The reader may have failed first, as on a full disk, and closed the socket: that is the reason then.
        const wasCut = isCut(error) || socket.readableEnded;
        socket.destroy();
        // If it was the agent that gave up, it says why.
        if (wasCut) await done;
        throw isCut(error) ? new BuildSeatLost(`the ${what} did not arrive whole`) : error;
      }
    } finally {
      home.forget(ticket);
    }
  }

  async bring(blob: string): Promise<void> {
    this.#blobs.add(blob);
    await this.#do((id) => ({ bring: { id, blob } }));
  }

  close(): void {
    this.#over(new BuildSeatLost("the build has ended"));
  }

  async #do(order: (id: number) => BuildOrder, onLine: OpenOrder["onLine"] = () => {}): Promise<Done> {
    if (this.#end !== null) throw this.#end;
    const id = ++this.#lastId;
    const open = { id, message: order(id), onLine, end: Promise.withResolvers<Done>(), printedChars: 0 };
    this.#open = open;
    this.#session.say(open.message);
    const done = await open.end.promise;
    if (done.problem !== null) throw new BuildSeatLost(done.problem);
    return done;
  }

  #hear(message: SeatMessage): void {
    if ("hello" in message) this.#meet(message.hello);
    else if ("ready" in message) void this.#settle(message.ready);
    else if ("printed" in message) this.#print(message.printed);
    else if ("done" in message && message.done.id === this.#open?.id) {
      const { end } = this.#open;
      this.#open = null;
      end.resolve(message.done);
    } else if ("failed" in message) this.#lost(`failed: ${message.failed.message}`);
    // It was asked to end. The place knows why, and tells it a moment later: evicted, deleted, drained.
    else if ("exited" in message)
      this.#session.end(WHY_MS, () => this.#lost("was asked to end from outside; deploy again"));
  }

  #print({ text, stream }: Extract<SeatMessage, { printed: unknown }>["printed"]): void {
    if (!this.#open) return;
    this.#open.printedChars += text.length + LINE_COST_CHARS;
    if (this.#open.printedChars <= MAX_PRINTED_CHARS) this.#open.onLine(text, stream);
    else this.#lost("broke the protocol: more printed lines than an agent passes on");
  }

  #meet(hello: { readonly python: string; readonly tag: string }): void {
    const { python, tag } = hello;
    this.#hello = hello;
    const { python: wish, image } = this.#workload;
    const { name } = this.#parts.place;
    const minor = versionOfTag(tag);
    if (minor === null) this.#lost(`has a Python that cannot be told: ${tag}`);
    else if (wish && !image && !`${wish.version}.`.startsWith(`${minor}.`))
      this.#lost(`has Python ${python} on ${name}, and the app asks for ${wish.version}`);
  }

  async #settle({ folder, python }: { readonly folder: string; readonly python: string }): Promise<void> {
    for (const timer of this.#starting) timer.cancel();
    const { image = null, exited } = this.#session.placed;
    const named = image && (await Promise.race([image, exited.then(() => null)]));
    const { python: version, tag } = this.#hello;
    this.#ready.resolve({ folder, python: { path: python, version }, tag, image: named });
  }

  #look(): void {
    const { isConnected, placed } = this.#session;
    const why = isConnected ? null : placed.obstacle();
    if (why !== null && why !== this.#obstacle) this.#events.onObstacle(why);
    this.#obstacle = why;
  }

  #giveUp(waitMs: number): void {
    this.#look();
    const why = this.#obstacle ?? "nothing is known of why";
    this.#lost(`did not start within ${waitMs / 1000} s: ${why}`);
  }

  /** Adds what to do about it, where the place does not say so. */
  #describeEnd({ detail, initFailure, isOutOfMemory }: Exit): string {
    if (initFailure) return `ended: ${initFailure.message}`;
    if (isOutOfMemory) return `ended: ${detail}; set a larger hardware.memory`;
    if (this.#session.secretHash !== null) return `ended: ${detail}; deploy again`;
    return `ended before it reached the service: ${detail}; deploy again, or find out more with millrace doctor`;
  }

  #lost(how: string): void {
    this.#over(new BuildSeatLost(`the build's seat ${this.#session.placed.placeName} ${how}`));
  }

  #over(end: Error): void {
    if (!this.#session.close({ end: {} })) return;
    this.#end = end;
    this.#signal.removeEventListener("abort", this.#onAbort);
    for (const timer of this.#starting) timer.cancel();
    this.#session.placed.kill();
    this.#ready.reject(end);
    this.#ended.reject(end);
    this.#open?.end.reject(end);
  }
}

function isCut(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ERR_STREAM_PREMATURE_CLOSE" || code === "ECONNRESET";
}

/** Builds in the seats of a place. A build fails if its seat does not start within `waitMs`. */
export function buildSeats(
  parts: RemoteParts,
  waitMs: number,
  clock: Clock,
  onError: (error: unknown) => void,
): BuildSeats {
  return {
    images: parts.place.images ?? null,
    open: (wish, onObstacle, signal) =>
      new BuildSeat(parts, buildWorkload(wish), waitMs, clock, { onObstacle, onError }, signal),
  };
}

/** A build as a workload: it sees no storage and no secrets, and cannot reach the installation itself. */
export function buildWorkload({ buildId, projectId, bundle, memoryBytes, ...wish }: BuildWish): Workload {
  return {
    ...wish,
    isBuild: true,
    version: { id: buildId, appNumber: 0, bundleBlob: bundle, environmentBlob: null, environmentTag: null },
    projectId,
    bundle: "",
    environment: null,
    variables: {},
    concurrency: 1,
    ignoreExtra: false,
    maxResultBytes: 0,
    maxChunkBytes: 0,
    mayFork: false,
    limits: { memoryBytes: Math.max(memoryBytes ?? 0, LEAST_MEMORY_BYTES), cpus: null, cpuShare: 1 },
    network: "egress",
    unixSockets: false,
    gpus: null,
    graceMs: 0,
    server: null,
  };
}
