import type { Socket } from "node:net";
import { type Clock, withTimeout } from "../kit/clock.ts";
import { releaseBytes } from "../kit/bytes.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Call, CallHolder } from "./call.ts";
import type { Exit, Started, Usage } from "../engines/engine.ts";
import { Control } from "./control.ts";
import type { FleetReplica, ReplicaEvents, ReplicaSource } from "./fleet-events.ts";
import { LAST_WORDS_MS, ReplicaLife } from "./replica-life.ts";
import {
  type CheckpointAnswer,
  packBatch,
  packCalls,
  type PackedCall,
  packResume,
  packTrace,
} from "./frames.ts";
import type { ConnectionKind, Home } from "../engines/home.ts";
import { LogSockets } from "../engines/log-lines.ts";
import { Heartbeat } from "../engines/heartbeat.ts";
import { WireInbox } from "./wire-inbox.ts";
import { BadFrame, type PayloadLimits } from "../engines/protocol.ts";
import type { AppConfig } from "../model/app-config.ts";
import type { CallTrace } from "../model/trace.ts";
import type { Seats } from "./seats.ts";

const WORN_AT = 2 ** 32 - 2 ** 20;
/** A harness sends ten a second, by its own clock. */
const PROGRESS_PER_SECOND = 50;
const PROGRESS_AT_ONCE = 100;
/** How long to wait for the end of a dead replica: killing one whose keepers are stopped too takes a while. */
const REAP_SECONDS = 20;

/** A Python process that takes calls over its wire. */
export class Replica extends ReplicaLife<Started> implements CallHolder, FleetReplica<Call> {
  pid = 0;
  setupMs: number | null = null;
  readonly #events: WireReplicaEvents;
  readonly #inbox: WireInbox;
  readonly #heartbeat: Heartbeat;
  #wire: Socket | null = null;
  #control: Control | null = null;
  readonly #logs: LogSockets;
  #hello: readonly FunctionSignature[] | null = null;
  /** How many calls its steppers take at a time, by function. */
  #steppers: ReadonlyMap<string, number> = new Map();
  #nextWireId = 1;
  /** Handed over in this tick. Copies, because a call may be withdrawn and get another id before the write. */
  #outgoing: PackedCall[] = [];
  /** How it broke the protocol: from then on it is ignored. */
  #fault: string | null = null;
  /** It ended without reading all that was sent on its wire. */
  #hasUnread = false;
  readonly #wireClosed = Promise.withResolvers<void>();

  constructor(id: string, { clock, events, limits, owner = "" }: ReplicaParts) {
    super(id, clock, events);
    this.#events = events;
    this.#logs = new LogSockets(owner, {
      onLog: (line) => events.onLog(line),
      onError: (error) => this.#fail(error),
    });
    this.#inbox = new WireInbox(this.calls, limits, {
      onHello: ({ pid, functions, steppers, setup_ms: setupMs }) => {
        this.pid ||= pid;
        this.setupMs = setupMs;
        this.#steppers = steppers;
        this.#hello = functions;
        this.#becomeReady();
      },
      onInitFailure: (failure) => (this.initFailure = failure),
      // The reader of a call that was cancelled has gone.
      onStream: (call) => call.hasEnded || call.reader.onStream?.(),
      onChunk: (call, chunk) => call.hasEnded || call.reader.onChunk?.(chunk),
      onCheckpoint: (call, value) => {
        const answer = (kind: CheckpointAnswer) =>
          this.calls.holds(call) && this.#tell((control) => control.answerCheckpoint(call, kind));
        if (call.hasEnded) answer("over");
        else if (call.reader.onCheckpoint) call.reader.onCheckpoint(value, answer);
        else answer("notKept");
      },
      onProgress: (call, progress) => {
        const seconds = (clock.monotonic() - call.handedAt) / 1000;
        call.progressCount += 1;
        if (call.progressCount > PROGRESS_AT_ONCE + PROGRESS_PER_SECOND * seconds)
          throw new BadFrame("PROGRESS more often than any harness sends it");
        if (!call.hasEnded) call.reader.onProgress?.(progress);
      },
      onOutcome: (call, outcome) => {
        this.release(call);
        events.onOutcome(call, outcome);
      },
    });
    this.#heartbeat = new Heartbeat({
      ping: () => this.#tell((control) => control.ping()),
      look: () => this.process?.vitals(this.pid) ?? null,
      onSilence: (isSilent) => events.onSilence(isSilent),
      onDead: (why) => {
        this.giveUp(why);
        this.setDeadline(REAP_SECONDS, () => this.leave({ detail: why, initFailure: null }));
      },
    });
  }

  get isSilent(): boolean {
    return this.#heartbeat.isSilent;
  }

  checkHealth(): void {
    if (this.state === "ready" || this.state === "draining") this.#heartbeat.check();
  }

  async usage(): Promise<Usage | null> {
    return (await this.process?.usage(this.pid)) ?? null;
  }

  /** Takes a connection that presented this replica's ticket. */
  attach(kind: ConnectionKind, socket: Socket, pid: number | null = null): void {
    if (this.#fault !== null || this.state === "gone") {
      socket.destroy();
      return;
    }
    if (kind === "wire") this.pid = pid ?? 0; // Inside its walls it may have another id.
    try {
      this.#attach(kind, socket);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Hands a call over. Calls of one tick leave in one write. */
  hand(call: Call, now: number): void {
    const wire = this.#wire;
    if (!wire) return;
    call.phase = "handed";
    call.isCheckpointing = false;
    call.progressCount = 0;
    call.holder = this;
    this.hold(call, this.#nextWireId++, now);
    if (call.resume) {
      // What was handed over before keeps its place.
      this.#flush(wire);
      wire.write(packResume(call.wireId, call.resume));
    }
    const { wireId, runId, functionName, attempt, limitMs, body } = call;
    // A stepper's code runs for many calls at a time.
    const trace = call.isStepped ? null : call.trace;
    const waiting = this.#outgoing.push({ wireId, runId, functionName, attempt, limitMs, body, trace });
    if (waiting === 1) setImmediate(() => this.#flush(wire));
  }

  stepper(functionName: string): { room: number; held: number; capacity: number } {
    const capacity = this.#steppers.get(functionName) ?? 0;
    const held = this.steppedCalls(functionName);
    return { room: Math.max(0, capacity - held), held, capacity };
  }

  /** Hands over calls of one function, whose ids are consecutive, in one frame. */
  handBatch(calls: readonly Call[], now: number): void {
    const wire = this.#wire;
    if (!wire) return;
    // What was handed over before keeps its place.
    this.#flush(wire);
    for (const call of calls) {
      call.phase = "handed";
      call.holder = this;
      this.hold(call, this.#nextWireId++, now);
      if (call.trace) tellTrace(wire, call, call.trace);
    }
    for (const part of packBatch(calls)) wire.write(part);
  }

  /** Its wire ids are close to 32 bits: after two days of full load. */
  get isWorn(): boolean {
    return this.#nextWireId > WORN_AT;
  }

  withdraw(call: Call): void {
    this.#tell((control) => control.withdraw(call));
  }

  cancel(call: Call): void {
    this.#tell((control) => control.cancel(call));
  }

  grant(call: Call, bytes: number): void {
    if (this.calls.holds(call)) this.#tell((control) => control.grant(call, bytes));
  }

  protected describeTimeout(initSeconds: number) {
    // It connects when main.py is imported, and says HELLO when its setup() has ended.
    const what =
      this.obstacle() ?? (this.#control ? "setup() in main.py did not end" : "main.py was not ready");
    const message = `${what} within deployment_initialization_timeout (${initSeconds} s)`;
    return { message, traceback: message };
  }

  protected drain(): void {
    this.#tell((control) => control.stop());
    if (!this.#wire) return;
    // After the calls of this tick: the replica reads them all before it reads the end.
    this.#flush(this.#wire);
    this.#wire.end();
  }

  #attach(kind: ConnectionKind, socket: Socket): void {
    switch (kind) {
      case "wire":
        this.#wire = socket;
        // A process that closes a connection with unread data, or dies, resets it.
        socket.once("error", ({ code }: NodeJS.ErrnoException) => (this.#hasUnread = code === "ECONNRESET"));
        socket.once("close", () => this.#wireClosed.resolve());
        this.#listen(socket, (data) => this.#inbox.push(data) && releaseBytes(data));
        break;
      case "control": {
        const control = new Control(socket, this.calls, (call) => {
          this.release(call);
          this.#events.onWithdrawn(call);
        });
        this.#control = control;
        this.#listen(socket, (data) => control.push(data));
        this.#becomeReady();
        break;
      }
      case "stdout":
      case "stderr":
        this.#logs.take(kind, socket);
        break;
      case "template":
        socket.destroy();
        break;
      default:
        kind satisfies never;
    }
  }

  /** One buffer, one write: corking the stream costs more per frame than the copy. */
  #flush(wire: Socket): void {
    const calls = this.#outgoing;
    if (calls.length === 0) return;
    this.#outgoing = [];
    for (const part of packCalls(calls)) wire.write(part);
  }

  /** Reads a connection to its end; any error there ends only this replica. */
  #listen(socket: Socket, read: (data: Buffer) => void): void {
    socket.on("data", (data: Buffer) => {
      if (this.#fault !== null) return;
      this.#heartbeat.hear();
      try {
        read(data);
      } catch (error) {
        this.#fail(error);
      }
    });
    socket.on("close", () => void this.#lose());
    socket.resume();
  }

  #tell(say: (control: Control) => void): void {
    if (!this.#control || this.#fault !== null) return;
    try {
      say(this.#control);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A replica that does not speak the protocol cannot be trusted with another call. */
  #fail(error: unknown): void {
    if (this.#fault !== null || this.state === "gone") return;
    this.#fault = error instanceof BadFrame ? error.message : "internal error in the service";
    if (!(error instanceof BadFrame)) this.#events.onError(error);
    this.kill();
    this.#wire?.destroy();
    this.#control?.destroy();
    // It may have no connection whose end would be noticed.
    void this.#lose();
  }

  #becomeReady(): void {
    // Without its control connection, a replica could not be asked to cancel.
    if (!this.#hello || !this.#control || !this.move("ready")) return;
    this.#events.onReady(this.#hello);
    // Not kept: each replica of an app would hold a copy.
    this.#hello = null;
  }

  /** Unread frames may say why it could not start, or hold a result. */
  protected async lastWords(): Promise<void> {
    await withTimeout(LAST_WORDS_MS, this.#wireClosed.promise, this.clock);
  }

  /** A connection closed, so the process is ending. The engine reports how a moment later. */
  async #lose(): Promise<void> {
    if (this.state === "gone") return;
    try {
      this.retreat();
      const exited = this.process?.exited;
      // In that case `ReplicaLife` continues.
      if (exited && (await withTimeout(LAST_WORDS_MS, exited, this.clock))) return;
      this.kill();
      this.leave({ detail: "it closed its connection", initFailure: null });
    } catch (error) {
      this.#events.onError(error);
    }
  }

  protected leave(exit: Exit): void {
    if (!this.move("leave")) return;
    this.#wire?.destroy();
    this.#control?.destroy();
    if (!this.#logs.isEmpty) this.#logs.close(this.clock);
    const lost = [...this.calls.values()];
    // Unread data is the end of what was sent, which includes at least the latest call.
    const unread = (this.#hasUnread && this.calls.get(this.#nextWireId - 1)) || null;
    for (const call of lost) this.release(call);
    const initFailure = exit.initFailure ?? this.initFailure;
    const fault = this.#fault;
    const { silence } = this;
    // Why the service ended it, or else how it ended.
    if (fault !== null)
      this.#events.onGone({ detail: `it broke the protocol: ${fault}`, fault, initFailure }, lost, unread);
    else if (silence !== null) this.#events.onGone({ detail: silence, silence, initFailure }, lost, unread);
    else this.#events.onGone({ ...exit, initFailure }, lost, unread);
  }
}

/** What a replica on the wire reports. */
type WireReplicaEvents = Omit<ReplicaEvents<Call>, "onGone" | "onSingle" | "onLeaving"> & {
  /** The process is gone; `lost` are its calls, oldest first, and `unread` is one that it cannot have begun. */
  onGone(exit: Exit, lost: readonly Call[], unread: Call | null): void;
};

type ReplicaParts = {
  readonly clock: Clock;
  readonly events: WireReplicaEvents;
  readonly limits: PayloadLimits;
  /** All output of one owner shares one turn when it is read. */
  readonly owner?: string;
};

type FunctionSeats = { readonly seats: Pick<Seats, "start" | "close">; readonly home: Home };

/** Starts replicas that take calls over the wire: each starts in a seat and connects home. */
export function functionReplicas(
  { scaling, limits, deployment }: AppConfig,
  { seats, home, clock, owner = "" }: Pick<ReplicaParts, "clock" | "owner"> & FunctionSeats,
): ReplicaSource<Call, Replica> {
  return {
    mayBeSingle: false,
    open: (id, events) => {
      let isConfined: Promise<void> | null = null;
      // Once, as soon as its process is known; meanwhile it continues to start.
      const confine = (pid: number): Promise<void> | null => (isConfined ??= started?.confine?.(pid) ?? null);
      let started: Started | null = null;
      const replica: Replica = new Replica(id, {
        clock,
        limits,
        owner,
        events: {
          ...events,
          onReady: (functions) => {
            const confined = confine(replica.pid);
            if (!confined) events.onReady(functions);
            else
              confined.then(
                () => replica.state === "ready" && events.onReady(functions),
                (error: unknown) => {
                  events.onError(error);
                  replica.kill();
                },
              );
          },
          onWithdrawn: (call) => {
            call.wireId = 0;
            events.onWithdrawn(call);
          },
          onGone: (exit, lost, unread) => {
            home.forget(ticket);
            const isUnread = (call: Call) =>
              call === unread || (call.batch !== null && call.batch === unread?.batch);
            // Calls begin in order, and a result is sent before the next call begins: only these can have begun. From
            // another machine, results may have been lost, so any call can have begun. Batches are not handed ahead, and
            // a stepper begins its calls at once, beside all others.
            let place = 0;
            const isInSlot = (call: Call) =>
              call.isStepped || call.batch !== null || place++ < scaling.replicaConcurrency;
            const mayHaveBegun = (call: Call) => isRemote || (isInSlot(call) && !isUnread(call));
            const begun = new Set(lost.filter(mayHaveBegun));
            const waiting = lost.filter((call) => !begun.has(call));
            for (const call of waiting) call.wireId = 0;
            const isTold = exit.fault !== undefined || exit.silence !== undefined;
            events.onGone(isTold ? exit : (started?.judge?.(exit) ?? exit), [...begun], waiting);
          },
        },
      });
      let isRemote = false;
      const ticket = home.expect((kind, socket, pid) => {
        isRemote ||= socket.remoteAddress !== undefined;
        // A failure is reported by `onReady`.
        if (pid !== null) confine(pid)?.catch(() => {});
        replica.attach(kind, socket, pid);
      });
      started = seats.start({ id, ticket });
      void started.leaving?.then(() => events.onLeaving());
      replica.bindTo(started, deployment.deploymentInitializationTimeoutSeconds);
      return replica;
    },
    close: () => seats.close(),
  };
}

/** Tells the replica of the trace of a call in a batch, and the batch of those that it joins. */
function tellTrace(wire: Socket, { wireId, batch }: Call, trace: CallTrace): void {
  wire.write(packTrace(wireId, trace));
  if (batch) (batch.traces ??= []).push(trace);
}
