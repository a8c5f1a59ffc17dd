import type { Socket } from "node:net";
import type { Clock, Timer } from "../kit/clock.ts";
import { within } from "../kit/within.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome } from "../model/outcome.ts";
import type { Call, CallHolder } from "./call.ts";
import type { Exit, InitFailure, Started } from "./engine.ts";
import { CallTable } from "./call-table.ts";
import { Control } from "./control.ts";
import { BadFrame } from "./frame-reader.ts";
import { packCalls } from "./frames.ts";
import type { PackedCall } from "./frames.ts";
import type { ConnectionKind } from "./home.ts";
import { LAST_LINES_MS, readLogLines } from "./log-lines.ts";
import type { LogLine } from "./log-lines.ts";
import { WireInbox } from "./wire-inbox.ts";
import type { PayloadLimits } from "./wire-limits.ts";

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
  /** An error of our own met while it was listened to; it is being ended. */
  onError(error: unknown): void;
};

/** What a replica is made of. */
export type ReplicaParts = {
  readonly clock: Clock;
  readonly events: ReplicaEvents;
  readonly limits: PayloadLimits;
  /** Whose it is: what is read of all that is one owner's has one turn among those of others. */
  readonly owner?: string;
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
  readonly #owner: string;
  readonly #inbox: WireInbox;
  #started: Started | null = null;
  #wire: Socket | null = null;
  #control: Control | null = null;
  readonly #logs: Socket[] = [];
  #hello: readonly FunctionSignature[] | null = null;
  #initFailure: InitFailure | null = null;
  #nextWireId = 1;
  /** Handed over in this tick. Not the calls themselves: one may be withdrawn, and get another id, before it leaves. */
  #outgoing: PackedCall[] = [];
  #deadline: Timer | null = null;
  /** How it broke the protocol: from then on it is not listened to. */
  #fault: string | null = null;
  readonly #wireClosed = Promise.withResolvers<void>();

  constructor(id: string, { clock, events, limits, owner = "" }: ReplicaParts) {
    this.id = id;
    this.startedAt = clock.now();
    this.#clock = clock;
    this.#events = events;
    this.#owner = owner;
    this.#inbox = new WireInbox(this.calls, limits, {
      onHello: ({ pid, functions }) => {
        this.pid = pid;
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
    this.#outlive(started).catch((error: unknown) => this.#events.onError(error));
  }

  /** Takes a connection that showed this replica's ticket. */
  attach(kind: ConnectionKind, socket: Socket): void {
    if (this.#fault !== null || this.state === "gone") {
      socket.destroy();
      return;
    }
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
    if (this.calls.get(call.wireId) === call) this.#tell((control) => control.grant(call, bytes));
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
        socket.once("close", () => this.#wireClosed.resolve());
        this.#listen(socket, (data) => this.#inbox.push(data));
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
        this.#logs.push(socket);
        readLogLines(socket, kind, (line) => this.#events.onLog(line), { owner: this.#owner }).catch(
          (error: unknown) => this.#accuse(error),
        );
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
      try {
        read(data);
      } catch (error) {
        this.#accuse(error);
      }
    });
    socket.on("close", () => {
      this.#lose().catch((error: unknown) => this.#events.onError(error));
    });
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
    this.#fault = error instanceof BadFrame ? error.message : "the service met an error of its own";
    if (!(error instanceof BadFrame)) this.#events.onError(error);
    this.kill();
    this.#wire?.destroy();
    this.#control?.destroy();
    // It may have no connection whose end would be noticed.
    void this.#leaveSoon();
  }

  async #leaveSoon(): Promise<void> {
    try {
      await this.#lose();
    } catch (error) {
      this.#events.onError(error);
    }
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
    if (this.#logs.length > 0) {
      this.#clock.after(LAST_LINES_MS, () => this.#logs.forEach((socket) => socket.destroy()));
    }
    const lost = [...this.calls.values()];
    this.calls.clear();
    const initFailure = exit.initFailure ?? this.#initFailure;
    const fault = this.#fault;
    const told = fault === null ? exit : { detail: `it broke the protocol: ${fault}`, fault };
    this.#events.onGone({ ...told, initFailure }, lost);
  }
}
