import type { Socket } from "node:net";
import type { Clock, Timer } from "../kit/clock.ts";
import { releaseBytes } from "../kit/bytes.ts";
import { withTimeout } from "../kit/clock.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Call, CallHolder } from "./call.ts";
import type { Exit, InitFailure, Started, Usage } from "../engines/engine.ts";
import { CallTable } from "./call.ts";
import { Control } from "./control.ts";
import type { FleetReplica, ReplicaEvents } from "./fleet-events.ts";
import { packCalls } from "./frames.ts";
import type { PackedCall } from "./frames.ts";
import type { ConnectionKind } from "../engines/home.ts";
import { LogSockets } from "../engines/log-lines.ts";
import { Pulse } from "../engines/heartbeat.ts";
import { WireInbox } from "./wire-inbox.ts";
import { BadFrame } from "../engines/protocol.ts";
import type { PayloadLimits } from "../engines/protocol.ts";

const WORN_AT = 2 ** 32 - 2 ** 20;
/** How far the report of a process's end may lag behind the end of its wire, or the other way round. */
const LAST_WORDS_MS = 500;
/** How long to wait for a dead replica: longer than it takes to kill one whose keepers are stopped too. */
const BURIAL_SECONDS = 20;

/**
 * One Python process, as the service sees it.
 *
 * starting → ready → draining → gone; any of them → gone. Only a ready replica is given calls.
 */
export class Replica implements CallHolder, FleetReplica<Call> {
  readonly id: string;
  readonly startedAt: number;
  /** Calls in its hands by wire id, oldest first. */
  readonly calls = new CallTable();
  state: "starting" | "ready" | "draining" | "gone" = "starting";
  readyAt = 0;
  pid = 0;
  isCondemned = false;
  idleSince = 0;
  headSince = 0;
  readonly #clock: Clock;
  readonly #events: WireReplicaEvents;
  readonly #inbox: WireInbox;
  readonly #pulse: Pulse;
  #started: Started | null = null;
  #wire: Socket | null = null;
  #control: Control | null = null;
  readonly #logs: LogSockets;
  #hello: readonly FunctionSignature[] | null = null;
  #initFailure: InitFailure | null = null;
  #nextWireId = 1;
  /** Handed over in this tick. Not the calls themselves: one may be withdrawn, and get another id, before it leaves. */
  #outgoing: PackedCall[] = [];
  #deadline: Timer | null = null;
  /** How it broke the protocol: from then on it is not listened to. */
  #fault: string | null = null;
  /** Why it was found dead. */
  #silence: string | null = null;
  /** It ended, and had not read all that was sent on its wire. */
  #hasUnread = false;
  readonly #wireClosed = Promise.withResolvers<void>();

  constructor(id: string, { clock, events, limits, owner = "" }: ReplicaParts) {
    this.id = id;
    this.startedAt = clock.now();
    this.#clock = clock;
    this.#events = events;
    this.#logs = new LogSockets(owner, {
      onLog: (line) => events.onLog(line),
      onError: (error) => this.#accuse(error),
    });
    this.#inbox = new WireInbox(this.calls, limits, {
      onHello: ({ pid, functions }) => {
        this.pid ||= pid;
        this.#hello = functions;
        this.#becomeReady();
      },
      onInitFailure: (failure) => (this.#initFailure = failure),
      // The reader of a call that was cancelled has gone.
      onStream: (call) => call.hasEnded || call.reader.onStream?.(),
      onChunk: (call, chunk) => call.hasEnded || call.reader.onChunk?.(chunk),
      onOutcome: (call, outcome) => {
        this.#release(call);
        events.onOutcome(call, outcome);
      },
    });
    this.#pulse = new Pulse({
      ask: () => this.#tell((control) => control.ping()),
      look: () => this.#started?.vitals(this.pid) ?? null,
      onSilence: (isSilent) => events.onSilence(isSilent),
      onDead: (why) => this.#giveUp(why),
    });
  }

  /** It does not answer: a call given to it now would wait. */
  get isSilent(): boolean {
    return this.#pulse.isSilent;
  }

  /** Checks whether it is alive; to be called every `ROUND_MS`. */
  feel(): void {
    if (this.state === "ready" || this.state === "draining") this.#pulse.feel();
  }

  async usage(): Promise<Usage | null> {
    return (await this.#started?.usage(this.pid)) ?? null;
  }

  obstacle(): string | null {
    return this.state === "starting" ? (this.#started?.obstacle?.() ?? null) : null;
  }

  /** Ties it to its process, and ends with that. If it is not ready after `initSeconds`, it has failed to start. */
  bindTo(started: Started, initSeconds: number): void {
    this.#started = started;
    this.#setDeadline(initSeconds, () => {
      const message = `${this.obstacle() ?? "main.py was not ready"} within deployment_initialization_timeout (${initSeconds} s)`;
      this.#initFailure = { message, traceback: message, isTimeout: true };
      this.kill();
    });
    this.#outlive(started).catch((error: unknown) => this.#events.onError(error));
  }

  /** Takes a connection that showed this replica's ticket. */
  attach(kind: ConnectionKind, socket: Socket, pid: number | null = null): void {
    if (this.#fault !== null || this.state === "gone") {
      socket.destroy();
      return;
    }
    if (kind === "wire") this.pid = pid ?? 0; // Inside its walls it may have another.
    try {
      this.#attach(kind, socket);
    } catch (error) {
      this.#accuse(error);
    }
  }

  /** Hands a call over. Calls of one tick leave in one write. */
  hand(call: Call, now: number): void {
    const wire = this.#wire;
    if (!wire) return;
    call.wireId = this.#nextWireId++;
    call.phase = "handed";
    call.holder = this;
    call.handedAt = now;
    if (this.calls.size === 0) this.headSince = now;
    this.calls.set(call.wireId, call);
    const { wireId, runId, functionName, body } = call;
    const waiting = this.#outgoing.push({ wireId, runId, functionName, body });
    if (waiting === 1) setImmediate(() => this.#flush(wire));
  }

  /** Its wire ids, which only grow, near the end of their 32 bits: two days of full load. */
  get isWorn(): boolean {
    return this.#nextWireId > WORN_AT;
  }

  /** Asks for a call back; `onWithdrawn` follows if it had not begun. */
  withdraw(call: Call): void {
    this.#tell((control) => control.withdraw(call));
  }

  /** Stops a call's code; its outcome follows when the code has really stopped. */
  cancel(call: Call): void {
    this.#tell((control) => control.cancel(call));
  }

  grant(call: Call, bytes: number): void {
    if (this.calls.holds(call)) this.#tell((control) => control.grant(call, bytes));
  }

  /** Orderly end: nothing new; what it holds goes on to its end, then the process exits. Killed if it does not. */
  stop(withinSeconds: number): void {
    if (this.state === "draining" || this.state === "gone") return;
    if (this.state === "starting") return this.kill();
    this.state = "draining";
    this.#setDeadline(withinSeconds, () => this.kill());
    this.#tell((control) => control.stop());
    if (!this.#wire) return;
    // Behind the calls of this tick: the replica reads them all before it reads the end.
    this.#flush(this.#wire);
    this.#wire.end();
  }

  /** Ends the process and all it started, now. */
  kill(): void {
    if (this.state !== "gone") this.#started?.kill();
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
          this.#release(call);
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

  /** One buffer, one write: a stream's own corking costs more a frame than the copy. */
  #flush(wire: Socket): void {
    const calls = this.#outgoing;
    if (calls.length === 0) return;
    this.#outgoing = [];
    for (const part of packCalls(calls)) wire.write(part);
  }

  /** Reads a connection to its end; whatever goes wrong there ends this replica, and reaches nobody else. */
  #listen(socket: Socket, read: (data: Buffer) => void): void {
    socket.on("data", (data: Buffer) => {
      if (this.#fault !== null) return;
      this.#pulse.hear();
      try {
        read(data);
      } catch (error) {
        this.#accuse(error);
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
      this.#accuse(error);
    }
  }

  /** A replica that does not speak the protocol cannot be trusted with another call. */
  #accuse(error: unknown): void {
    if (this.#fault !== null || this.state === "gone") return;
    this.#fault = error instanceof BadFrame ? error.message : "internal error in the service";
    if (!(error instanceof BadFrame)) this.#events.onError(error);
    this.kill();
    this.#wire?.destroy();
    this.#control?.destroy();
    // It may have no connection whose end would be noticed.
    void this.#lose();
  }

  #release(call: Call): void {
    const now = this.#clock.monotonic();
    this.calls.delete(call.wireId);
    this.headSince = now;
    if (this.calls.size === 0) this.idleSince = now;
  }

  #becomeReady(): void {
    // Both have to be here: a replica without its control connection could not be told to cancel.
    if (this.state !== "starting" || !this.#hello || !this.#control) return;
    this.state = "ready";
    this.#deadline?.cancel();
    this.readyAt = this.#clock.now();
    this.idleSince = this.#clock.monotonic();
    this.#events.onReady(this.#hello);
    // Whoever needs them has them; each replica of an app would keep its own.
    this.#hello = null;
  }

  #setDeadline(seconds: number, act: () => void): void {
    this.#deadline?.cancel();
    this.#deadline = this.#clock.after(seconds * 1000, act);
  }

  async #outlive(process: Started): Promise<void> {
    const exit = await process.exited;
    this.#retreat();
    // Its last frames may still be unread: why it could not start, or a result.
    await withTimeout(LAST_WORDS_MS, this.#wireClosed.promise, this.#clock);
    this.#leave(exit);
  }

  /** A connection closed: the process is ending. How it ended is told by the engine, a moment later. */
  async #lose(): Promise<void> {
    if (this.state === "gone") return;
    try {
      this.#retreat();
      const exited = this.#started?.exited;
      // If that comes, `#outlive` goes on from there.
      if (exited && (await withTimeout(LAST_WORDS_MS, exited, this.#clock))) return;
      this.kill();
      this.#leave({ detail: "it closed its connection", initFailure: null });
    } catch (error) {
      this.#events.onError(error);
    }
  }

  /** It is dead. Its calls are reported only when it is gone: until then it might wake up and run them. */
  #giveUp(why: string): void {
    this.#silence = why;
    this.#retreat();
    this.kill();
    this.#setDeadline(BURIAL_SECONDS, () => this.#leave({ detail: why, initFailure: null }));
  }

  /** A call given to it now would be lost. */
  #retreat(): void {
    if (this.state !== "ready") return;
    this.state = "draining";
    this.#events.onEnding();
  }

  #leave(exit: Exit): void {
    if (this.state === "gone") return;
    this.state = "gone";
    this.#deadline?.cancel();
    this.#wire?.destroy();
    this.#control?.destroy();
    this.#logs.close(this.#clock);
    const lost = [...this.calls.values()];
    // What it had not read is the end of what was sent. If nothing else, that is the latest call.
    const unread = (this.#hasUnread && this.calls.get(this.#nextWireId - 1)) || null;
    this.calls.clear();
    const initFailure = exit.initFailure ?? this.#initFailure;
    this.#events.onGone({ ...this.#told(exit), initFailure }, lost, unread);
  }

  /** Why we ended it, or else how it ended. */
  #told(exit: Exit): Omit<Exit, "initFailure"> {
    if (this.#fault !== null) return { detail: `it broke the protocol: ${this.#fault}`, fault: this.#fault };
    return this.#silence === null ? exit : { detail: this.#silence, silence: this.#silence };
  }
}

/** What is learned from a replica that takes its calls by the wire. */
type WireReplicaEvents = Omit<ReplicaEvents<Call>, "onGone" | "onSingle" | "onLeaving"> & {
  /** The process is gone; `lost` are the calls it held, oldest first, and `unread` is one that it cannot have begun. */
  onGone(exit: Exit, lost: readonly Call[], unread: Call | null): void;
};

/** What such a replica is made of. */
type ReplicaParts = {
  readonly clock: Clock;
  readonly events: WireReplicaEvents;
  readonly limits: PayloadLimits;
  /** Whose it is: what is read of all that is one owner's has one turn among those of others. */
  readonly owner?: string;
};
