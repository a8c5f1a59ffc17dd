import { isUtf8 } from "node:buffer";
import { isJson, JsonScan } from "../kit/json/scan.ts";
import type { FunctionSignature } from "../model/app.ts";
import type { Outcome, Returned, Unsendable } from "../model/outcome.ts";
import type { Call, CallTable, Chunk, ReportedProgress } from "./call.ts";
import type { InitFailure } from "../engines/engine.ts";
import { FRAME, FrameReader, HEAD_BYTES, INITIAL_CREDIT_BYTES } from "./frames.ts";
import { byType, CALL_STEPS, frameName, WIRE_STEPS, type WirePhase } from "./wire-order.ts";
import {
  BadFrame,
  cutMessage,
  cutTraceback,
  parseHello,
  parseInitFailure,
  parseJson,
  WIRE_LIMITS,
} from "../engines/protocol.ts";
import type { PayloadLimits } from "../engines/protocol.ts";
import { z } from "zod";

/** A replica can take calls. */
type Hello = {
  readonly pid: number;
  readonly functions: readonly FunctionSignature[];
  /** How many calls its steppers take at a time, by function. */
  readonly steppers: ReadonlyMap<string, number>;
  /** How long its `setup()` took; null if it has none. */
  readonly setup_ms: number | null;
};

/** The messages of a replica, in a legal order. */
type WireEvents = {
  onHello(hello: Hello): void;
  onInitFailure(failure: InitFailure): void;
  onStream(call: Call): void;
  onChunk(call: Call, chunk: Chunk): void;
  /** It waits for an answer. */
  onCheckpoint(call: Call, value: Buffer): void;
  onProgress(call: Call, progress: ReportedProgress): void;
  /** The call's last frame. */
  onOutcome(call: Call, outcome: Outcome): void;
};

const RESULT_HEAD_BYTES = 10;
const CHUNK_HEAD_BYTES = 1;
const MS_BYTES = 8;
const FRACTION_BYTES = 8;
const IS_TEXT = 0;
const IS_JSON = 1;

/**
 * Reads a replica's wire. Nothing of a frame is kept before its head was checked: type, order, length by the app's
 * limits, and the call's credit. Throws `BadFrame` for frames that no harness sends.
 */
export class WireInbox {
  readonly #calls: CallTable;
  /** By frame type; 0 where there is none. */
  readonly #maxBytes: readonly number[];
  readonly #events: WireEvents;
  readonly #reader = new FrameReader({
    admit: (type, callId, length) => this.#admit(type, callId, length),
    onFrame: (type, callId, payload) => this.#receive(type, callId, payload),
    onPart: (type, callId, payload) => this.#look(type, callId, payload),
  });
  #phase: WirePhase = "opening";
  /** The scan of a large payload that is still arriving. */
  #scan: JsonScan | null = null;
  #scannedBytes = 0;

  constructor(calls: CallTable, limits: PayloadLimits, events: WireEvents) {
    this.#calls = calls;
    this.#events = events;
    const { helloBytes, initFailedBytes, failedBytes, checkpointBytes, progressBytes } = WIRE_LIMITS;
    const maxBytes = {
      HELLO: helloBytes,
      INIT_FAILED: initFailedBytes,
      FAILED: failedBytes,
      RESULT: RESULT_HEAD_BYTES + limits.maxResultBytes,
      CHUNK: CHUNK_HEAD_BYTES + limits.maxChunkBytes,
      END: MS_BYTES,
      CHECKPOINT: checkpointBytes,
      PROGRESS: FRACTION_BYTES + progressBytes,
    };
    this.#maxBytes = byType(maxBytes, 0);
  }

  /** Returns whether all of it was copied, so that `data` can be reused. */
  push(data: Buffer): boolean {
    return this.#reader.push(data);
  }

  #admit(type: number, callId: number, length: number): void {
    if (type === FRAME.HELLO || type === FRAME.INIT_FAILED) this.#moveWire(type, callId);
    else this.#moveCall(type, callId);
    if (length > (this.#maxBytes[type] ?? 0) || length < (MIN_BYTES[type] ?? 0))
      throw new BadFrame(`a ${frameName(type)} of ${length} bytes`);
  }

  #moveWire(type: number, callId: number): WirePhase {
    const next = WIRE_STEPS[this.#phase][type];
    if (!next || callId !== 0) throw new BadFrame(`${frameName(type)} out of turn`);
    return next;
  }

  /** The call of a frame, which is checked to be legal. */
  #moveCall(type: number, callId: number): Call {
    if (this.#phase !== "serving") throw new BadFrame(`${frameName(type)} before HELLO`);
    const call = this.#calls.get(callId);
    if (!call) throw new BadFrame(`${frameName(type)} for no call`);
    // These two belong on the control connection.
    const isHere = type !== FRAME.WITHDRAWN && type !== FRAME.BEGUN;
    if (!isHere || !CALL_STEPS[call.phase][type]) throw new BadFrame(`${frameName(type)} out of turn`);
    if (type === FRAME.CHUNK && call.creditBytes <= 0) throw new BadFrame("a CHUNK beyond its credit");
    if (type === FRAME.CHECKPOINT) requireCheckpoint(call);
    if (type === FRAME.CANCELLED && !call.isCancelled)
      throw new BadFrame("CANCELLED for a call that was not cancelled");
    return call;
  }

  #receive(type: number, callId: number, payload: Buffer): void {
    if (type === FRAME.HELLO) {
      this.#phase = this.#moveWire(type, callId);
      this.#events.onHello(parseHello(payload));
    } else if (type === FRAME.INIT_FAILED) {
      this.#phase = this.#moveWire(type, callId);
      this.#events.onInitFailure(parseInitFailure(payload));
    } else this.#receiveFor(this.#moveCall(type, callId), type, payload);
  }

  #receiveFor(call: Call, type: number, payload: Buffer): void {
    switch (type) {
      case FRAME.RESULT:
        this.#takeResult(call, payload);
        break;
      case FRAME.FAILED:
        this.#takeFailure(call, parseFailure(payload));
        break;
      case FRAME.END:
        this.#finish(call, { kind: "streamed", runMs: parseMs(payload) });
        break;
      case FRAME.CANCELLED:
        this.#finish(call, { kind: "cancelled" });
        break;
      case FRAME.STREAM:
        call.phase = "streaming";
        call.creditBytes = INITIAL_CREDIT_BYTES;
        this.#events.onStream(call);
        break;
      case FRAME.CHECKPOINT:
        if (!isJson(payload)) throw new BadFrame("a CHECKPOINT that is not JSON");
        if (call.phase === "handed") call.phase = "begun";
        call.isCheckpointing = true;
        // A copy: it outlives what arrived with it.
        this.#events.onCheckpoint(call, Buffer.from(payload));
        break;
      case FRAME.PROGRESS:
        if (call.phase === "handed") call.phase = "begun";
        this.#events.onProgress(call, parseProgress(payload));
        break;
      default:
        this.#takeChunk(call, payload);
    }
  }

  #takeResult(call: Call, payload: Buffer): void {
    const result = parseResult(payload);
    if (!result) this.#refuse(call, badStatus(payload));
    if (!this.#isJson(result.json)) this.#refuse(call, notJson("result"));
    this.#finish(call, result);
  }

  #takeChunk(call: Call, payload: Buffer): void {
    const [kind] = payload;
    const bytes = payload.subarray(CHUNK_HEAD_BYTES);
    const wireBytes = HEAD_BYTES + payload.length;
    call.creditBytes -= wireBytes;
    if (kind !== IS_JSON && kind !== IS_TEXT) throw new BadFrame(`a CHUNK of kind ${kind}`);
    if (kind === IS_JSON && !this.#isJson(bytes)) this.#refuse(call, notJson("chunk"));
    this.#events.onChunk(call, { isText: kind === IS_TEXT, bytes, wireBytes });
  }

  #takeFailure(call: Call, outcome: Outcome): void {
    if (outcome.kind === "cancelled" && call.phase !== "streaming")
      throw new BadFrame("a FAILED of kind stalled for a call that does not stream");
    this.#finish(call, outcome);
  }

  #finish(call: Call, outcome: Outcome): void {
    call.phase = "over";
    this.#events.onOutcome(call, outcome);
  }

  /** An invalid payload fails its run and ends its replica: no harness sends it. */
  #refuse(call: Call, outcome: Unsendable): never {
    this.#finish(call, outcome);
    throw new BadFrame(outcome.message);
  }

  /** Scans a large result or chunk while it arrives. */
  #look(type: number, callId: number, payload: Buffer): void {
    const call = this.#calls.get(callId);
    const headBytes = type === FRAME.RESULT ? RESULT_HEAD_BYTES : CHUNK_HEAD_BYTES;
    const isLookedAt = type === FRAME.RESULT || (type === FRAME.CHUNK && payload[0] === IS_JSON);
    if (!call || !isLookedAt || payload.length <= headBytes) return;
    this.#scan ??= new JsonScan();
    const json = payload.subarray(headBytes);
    const isGood = this.#scan.push(json, this.#scannedBytes);
    this.#scannedBytes = json.length;
    if (!isGood) this.#refuse(call, notJson(type === FRAME.RESULT ? "result" : "chunk"));
  }

  #isJson(bytes: Buffer): boolean {
    const scan = this.#scan;
    if (!scan) return isJson(bytes);
    const isGood = scan.push(bytes, this.#scannedBytes) && scan.isWhole && isUtf8(bytes);
    this.#scan = null;
    this.#scannedBytes = 0;
    return isGood;
  }
}

const MIN_BYTES = byType(
  {
    RESULT: RESULT_HEAD_BYTES,
    CHUNK: CHUNK_HEAD_BYTES,
    END: MS_BYTES,
    CHECKPOINT: 1,
    PROGRESS: FRACTION_BYTES,
  },
  0,
);

/** A call makes one checkpoint at a time; one of a batch, or of a stepper, none. */
function requireCheckpoint({ isCheckpointing, batch, isStepped }: Call): void {
  if (isCheckpointing) throw new BadFrame("a CHECKPOINT before the answer to the last one");
  if (batch !== null || isStepped) throw new BadFrame("a CHECKPOINT of a batched call");
}

/** PROGRESS: NaN and an empty text stand for none. */
function parseProgress(payload: Buffer): ReportedProgress {
  const fraction = payload.readDoubleLE(0);
  const text = payload.subarray(FRACTION_BYTES);
  if (fraction < 0 || fraction > 1) throw new BadFrame(`a PROGRESS of ${fraction}`);
  if (!isUtf8(text)) throw new BadFrame("a PROGRESS that is not UTF-8");
  return {
    fraction: Number.isNaN(fraction) ? null : fraction,
    message: text.length === 0 ? null : text.toString(),
  };
}

function notJson(what: "result" | "chunk"): Unsendable {
  const message = `The app's process sent a ${what} that is not JSON.`;
  return { kind: "unsendable", code: "result_not_json", message, runMs: 0 };
}

function badStatus(payload: Buffer): Unsendable {
  const status = payload.readUInt16LE(MS_BYTES);
  const message = `The app's process answered with the status ${status}, which is not 200 to 599.`;
  return { kind: "unsendable", code: "app_error", message, runMs: 0 };
}

const { nameChars, runMs: maxRunMs } = WIRE_LIMITS;
const message = z.string().transform(cutMessage);
const traceback = z.string().transform(cutTraceback);
const run_ms = z.number().min(0).max(maxRunMs);

/** FAILED: what went wrong, as a value. */
const failure = z.discriminatedUnion("kind", [
  z
    .object({
      kind: z.literal("raised"),
      code: z.enum(["app_error", "out_of_memory"]),
      message,
      traceback,
      run_ms,
      types: z.array(z.string().max(nameChars)).max(WIRE_LIMITS.types).default([]),
      retry_after: z.number().min(0).max(WIRE_LIMITS.retryAfterSeconds).nullable().default(null),
      for_good: z.boolean().default(false),
    })
    .transform(({ run_ms: runMs, retry_after, for_good: isForGood, ...raised }) => ({
      ...raised,
      runMs,
      retryAfterMs: retry_after === null ? null : Math.round(retry_after * 1000),
      isForGood,
    })),
  z.object({
    kind: z.literal("misfit"),
    details: z
      .array(
        z.object({
          field: z.string().max(nameChars),
          problem: z.enum(["missing", "unknown", "invalid"]),
          message: z.string().max(WIRE_LIMITS.noteChars).optional(),
        }),
      )
      .max(WIRE_LIMITS.misfits),
    more: z.int().min(0).default(0),
  }),
  z.object({ kind: z.literal("no_function") }),
  z
    .object({
      kind: z.literal("unsendable"),
      code: z.enum(["result_not_json", "result_too_large"]),
      message,
      run_ms,
    })
    .transform(({ run_ms: runMs, ...unsendable }) => ({ ...unsendable, runMs })),
  z.object({ kind: z.literal("stalled") }).transform(() => ({
    kind: "cancelled" as const,
    message: "The caller read too slowly: more chunks waited for it than max_chunk allows.",
  })),
]);

/** RESULT, without parsing its JSON; null if its status is invalid. */
function parseResult(payload: Buffer): Returned | null {
  const status = payload.readUInt16LE(8) || 200;
  if (status < 200 || status > 599) return null;
  return { kind: "returned", runMs: parseMs(payload), status, json: payload.subarray(10) };
}

/** The milliseconds at the start of RESULT and END. */
function parseMs(payload: Buffer): number {
  const ms = payload.readDoubleLE(0);
  // Written so that NaN fails.
  if (!(ms >= 0 && ms <= maxRunMs)) throw new BadFrame(`a run of ${ms} ms`);
  return ms;
}

export function parseFailure(payload: Buffer): Outcome {
  return parseJson("FAILED", failure, payload);
}
