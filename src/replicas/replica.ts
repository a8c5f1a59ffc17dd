import type { Socket } from "node:net";
import type { Clock, Timer } from "../kit/clock.ts";
import { within } from "../kit/within.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Call, CallHolder } from "./call.ts";
import type { Exit, InitFailure, Started } from "./engine.ts";
import { CallTable } from "./call-table.ts";
import { BadFrame, FRAME, FrameReader, HEAD_BYTES, packCalls, packFrame } from "./frames.ts";
import type { PackedCall } from "./frames.ts";
import type { ConnectionKind } from "./home.ts";
import { readLogLines } from "./log-lines.ts";
import type { LogLine } from "./log-lines.ts";
import { parseFailure, parseHello, parseInitFailure, parseResult } from "./messages.ts";

/** What a replica's owner learns from it. */
export type ReplicaEvents = {
  onReady(functions: readonly FunctionSignature[]): void;
  /** A call is over and its slot free. */
  onOutcome(call: Call, outcome: Outcome): void;
  /** A call handed ahead was given back before it began. */
  onWithdrawn(call: Call): void;
  /** The process is ending of its own accord; how, and what it held, `onGone` tells a moment later. */
  onEnding(): void;
  /** The process is gone; `lost` are the calls it held, oldest first. */
  onGone(exit: Exit, lost: readonly Call[]): void;
  onLog(line: LogLine): void;
};

const WORN_AT = 2 ** 32 - 2 ** 20;
/** How long the word on how a process ended may lag behind the end of its wire, or the other way round. */
const LAST_WORDS_MS = 500;

/**
 * One Python process, as the service sees it.
 *
 * starting → ready → draining → gone; any of them → gone. Only a ready replica is given calls.
 */
export class Replica implements CallHolder {
  readonly id: string;
  readonly startedAt: number;
  /** Calls in its hands by wire id, oldest first. */
  readonly calls = new CallTable();
  state: "starting" | "ready" | "draining" | "gone" = "starting";
  readyAt = 0;
  pid = 0;
  /** Its end is our own doing, not the app's. */
  isCondemned = false;
  /** When it last had nothing to do; meaningful while `calls` is empty. */
  idleSince = 0;
  /** When the call now at the head got there. */
  headSince = 0;
  readonly #clock: Clock;
  readonly #events: ReplicaEvents;
  #started: Started | null = null;
  #wire: Socket | null = null;
  #control: Socket | null = null;
  #hello: readonly FunctionSignature[] | null = null;
  #initFailure: InitFailure | null = null;
  #nextWireId = 1;
  /** Handed over in this tick. Not the calls themselves: one may be withdrawn, and get another id, before it leaves. */
  #outgoing: PackedCall[] = [];
  #deadline: Timer | null = null;
  readonly #wireClosed = Promise.withResolvers<void>();

  constructor(id: string, clock: Clock, events: ReplicaEvents) {
    this.id = id;
    this.startedAt = clock.now();
    this.#clock = clock;
    this.#events = events;
  }

  /**
   * Ties it to its process: the end of that process is the end of the replica. Not ready after `initSeconds`
   * is a failure to start.
   */
  follow(started: Started, initSeconds: number): void {
    this.#started = started;
    this.#setDeadline(initSeconds, () => {
      const message = `main.py was not ready within deployment_initialization_timeout (${initSeconds} s)`;
      this.#initFailure = { message, traceback: message, isTimeout: true };
      this.kill();
    });
    void this.#outlive(started);
  }

  /** Takes a connection that showed this replica's ticket. */
  attach(kind: ConnectionKind, socket: Socket): void {
    switch (kind) {
      case "wire":
        this.#wire = socket;
        socket.once("close", () => this.#wireClosed.resolve());
        this.#read(socket, (type, callId, payload) => this.#onWire(type, callId, payload));
        break;
      case "control":
        this.#control = socket;
        this.#read(socket, (type, callId) => this.#onControl(type, callId));
        this.#becomeReady();
        break;
      case "stdout":
      case "stderr":
        readLogLines(socket, kind, (line) => this.#events.onLog(line));
        break;
      case "template":
        socket.destroy();
        break;
      default:
        kind satisfies never;
    }
  }

  /** Hands a call over. Calls of one tick leave in one write. */
  hand(call: Call, now: number): void {
    const wire = this.#wire;
    if (!wire) return;
    call.wireId = this.#nextWireId++;
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
    this.#control?.write(packFrame(FRAME.WITHDRAW, call.wireId));
  }

  /** Stops a call's code; its outcome follows when the code has really stopped. */
  cancel(call: Call): void {
    this.#control?.write(packFrame(FRAME.CANCEL, call.wireId));
  }

  grant(call: Call, bytes: number): void {
    if (this.calls.has(call.wireId)) this.#control?.write(packFrame(FRAME.CREDIT, call.wireId, bytes));
  }

  /** Orderly end: nothing new; what it holds goes on to its end, then the process exits. Killed if it does not. */
  stop(withinSeconds: number): void {
    if (this.state === "draining" || this.state === "gone") return;
    if (this.state === "starting") {
      this.kill();
      return;
    }
    this.state = "draining";
    this.#setDeadline(withinSeconds, () => this.kill());
    this.#control?.write(packFrame(FRAME.STOP, 0));
    if (!this.#wire) return;
    // Behind the calls of this tick: the replica reads them all before it reads the end.
    this.#flush(this.#wire);
    this.#wire.end();
  }

  /** Ends the process and all it started, now. */
  kill(): void {
    if (this.state !== "gone") this.#started?.kill();
  }

  /** One buffer, one write: a stream's own corking costs more a frame than the copy. */
  #flush(wire: Socket): void {
    const calls = this.#outgoing;
    if (calls.length === 0) return;
    this.#outgoing = [];
    for (const part of packCalls(calls)) wire.write(part);
  }

  #read(socket: Socket, onFrame: (type: number, callId: number, payload: Buffer) => void): void {
    const reader = new FrameReader(onFrame);
    socket.on("data", (data: Buffer) => {
      try {
        reader.push(data);
      } catch {
        // A replica that does not speak the protocol cannot be trusted with another call.
        this.kill();
        socket.destroy();
      }
    });
    socket.on("close", () => void this.#lose());
    socket.resume();
  }

  #onWire(type: number, callId: number, payload: Buffer): void {
    if (type === FRAME.HELLO) {
      const hello = parseHello(payload);
      this.pid = hello.pid;
      this.#hello = hello.functions;
      this.#becomeReady();
      return;
    }
    if (type === FRAME.INIT_FAILED) {
      this.#initFailure = parseInitFailure(payload);
      return;
    }
    const call = this.calls.get(callId);
    // A call leaves `calls` with its last frame: one more is forged, or meant for somebody else.
    if (!call) throw new BadFrame(`a frame of type ${type} for no call`);
    switch (type) {
      case FRAME.RESULT:
        this.#finish(call, parseResult(payload));
        break;
      case FRAME.FAILED:
        this.#finish(call, parseFailure(payload));
        break;
      case FRAME.CANCELLED:
        this.#finish(call, { kind: "cancelled" });
        break;
      case FRAME.END:
        this.#finish(call, { kind: "streamed", runMs: payload.readDoubleLE(0) });
        break;
      case FRAME.STREAM:
        if (!call.hasEnded) call.reader.onStream?.();
        break;
      case FRAME.CHUNK:
        if (!call.hasEnded) {
          const wireBytes = HEAD_BYTES + payload.length;
          call.reader.onChunk?.({ isText: payload[0] === 0, bytes: payload.subarray(1), wireBytes });
        }
        break;
      default:
        throw new BadFrame(`a frame of type ${type}`);
    }
  }

  #onControl(type: number, callId: number): void {
    if (type !== FRAME.WITHDRAWN) return;
    const call = this.calls.get(callId);
    if (!call) return;
    this.#release(call);
    this.#events.onWithdrawn(call);
  }

  #finish(call: Call, outcome: Outcome): void {
    this.#release(call);
    this.#events.onOutcome(call, outcome);
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
  }

  #setDeadline(seconds: number, act: () => void): void {
    this.#deadline?.cancel();
    this.#deadline = this.#clock.after(seconds * 1000, act);
  }

  async #outlive(process: Started): Promise<void> {
    const exit = await process.exited;
    this.#retreat();
    // Its last words may still be unread: why it could not start, or a result.
    await within(LAST_WORDS_MS, this.#wireClosed.promise, this.#clock);
    this.#leave(exit);
  }

  /** A connection closed: the process is ending. How it ended is told by the engine, a moment later. */
  async #lose(): Promise<void> {
    if (this.state === "gone") return;
    this.#retreat();
    const exited = this.#started?.exited;
    const exit = exited ? await within(LAST_WORDS_MS, exited, this.#clock) : null;
    if (!exit) this.kill();
    this.#leave(exit ?? { detail: "it closed its connection", initFailure: null });
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
    const lost = [...this.calls.values()];
    this.calls.clear();
    this.#events.onGone({ ...exit, initFailure: exit.initFailure ?? this.#initFailure }, lost);
  }
}
