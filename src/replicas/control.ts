import type { Socket } from "node:net";
import type { Call, CallTable } from "./call.ts";
import { CHECKPOINT_ANSWERS, type CheckpointAnswer, FRAME, FrameReader, packFrame } from "./frames.ts";
import { CALL_STEPS, CONTROL_STEPS, type ControlPhase, frameName } from "./wire-order.ts";
import { BadFrame } from "../engines/protocol.ts";

/** How much may be unread and unanswered: many times what any load causes. */
const MAX_UNREAD_BYTES = 256 * 1024;
const MAX_UNANSWERED = 10_000;

/**
 * A replica's control connection, for messages that must not wait behind a call. Throws `BadFrame` for a replica that
 * sends unsolicited answers, or neither reads nor answers.
 */
export class Control {
  readonly #socket: Socket;
  readonly #calls: CallTable;
  readonly #onWithdrawn: (call: Call) => void;
  readonly #reader = new FrameReader({
    admit: (type, callId, length) => this.#admit(type, callId, length),
    onFrame: (type, callId) => this.#receive(type, callId),
  });
  /** How often each call was asked back, by wire id. A call may be over before the answer. */
  readonly #asked = new Map<number, number>();
  #phase: ControlPhase = "quiet";

  constructor(socket: Socket, calls: CallTable, onWithdrawn: (call: Call) => void) {
    this.#socket = socket;
    this.#calls = calls;
    this.#onWithdrawn = onWithdrawn;
  }

  push(data: Buffer): void {
    this.#reader.push(data);
  }

  /** Asks for a call back, unless it has begun. */
  withdraw(call: Call): void {
    this.#ask(FRAME.WITHDRAW, call);
  }

  /** Asks for a call back, and stops its code if it has begun. */
  cancel(call: Call): void {
    this.#ask(FRAME.CANCEL, call);
  }

  /** Lets a stream send that many more bytes. */
  grant(call: Call, bytes: number): void {
    call.creditBytes += bytes;
    this.#write(packFrame(FRAME.CREDIT, call.wireId, bytes));
  }

  /** Answers a checkpoint, after which the call may make another. */
  answerCheckpoint(call: Call, answer: CheckpointAnswer): void {
    call.isCheckpointing = false;
    this.#write(packFrame(FRAME.CHECKPOINTED, call.wireId, CHECKPOINT_ANSWERS[answer]));
  }

  /** Sends a PING, unless one is unanswered. */
  ping(): void {
    if (this.#phase === "asked") return;
    this.#phase = "asked";
    this.#write(packFrame(FRAME.PING, 0));
  }

  /** Announces that no more calls follow. */
  stop(): void {
    this.#write(packFrame(FRAME.STOP, 0));
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #ask(type: number, { wireId }: Call): void {
    this.#asked.set(wireId, (this.#asked.get(wireId) ?? 0) + 1);
    if (this.#asked.size > MAX_UNANSWERED) throw new BadFrame("it does not answer its control connection");
    this.#write(packFrame(type, wireId));
  }

  #write(frame: Buffer): void {
    this.#socket.write(frame);
    if (this.#socket.writableLength > MAX_UNREAD_BYTES)
      throw new BadFrame("it does not read its control connection");
  }

  #admit(type: number, callId: number, length: number): void {
    const isAnswer = type === FRAME.WITHDRAWN || type === FRAME.BEGUN;
    if (type === FRAME.PONG && callId === 0 && length === 0) this.#move(type);
    else if (!isAnswer || length > 0) throw new BadFrame(`${frameName(type)} of ${length} bytes on control`);
    else if (!this.#asked.has(callId))
      throw new BadFrame(`${frameName(type)} for a call that was not asked back`);
  }

  #move(type: number): ControlPhase {
    const next = CONTROL_STEPS[this.#phase][type];
    if (!next) throw new BadFrame(`${frameName(type)} out of turn`);
    return next;
  }

  #receive(type: number, callId: number): void {
    if (type === FRAME.PONG) {
      this.#phase = this.#move(type);
      return;
    }
    const left = (this.#asked.get(callId) ?? 0) - 1;
    if (left > 0) this.#asked.set(callId, left);
    else this.#asked.delete(callId);
    const call = this.#calls.get(callId);
    // Its result came first, on the wire.
    if (!call) return;
    const next = CALL_STEPS[call.phase][type];
    if (!next) throw new BadFrame(`${frameName(type)} out of turn`);
    call.phase = next;
    if (type === FRAME.WITHDRAWN) this.#onWithdrawn(call);
  }
}
