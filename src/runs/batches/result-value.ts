import { isUtf8 } from "node:buffer";
import { setImmediate } from "node:timers/promises";
import { JsonScan } from "../../kit/json/scan.ts";
import { AppError } from "../../model/errors.ts";
import { isServerRun } from "../../model/http-request.ts";
import { isFinal, type Payload, type Run, type RunKey } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import { hasJsonType } from "../ended-run.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { isBodiless, STREAM_TYPE, unwrapPieces, unwrapResult } from "../response.ts";
import { allChunks, storedTranscript } from "../transcript.ts";
import type { PartReader } from "../transcript-parts.ts";

export type ValueParts = {
  readonly store: Pick<Store, "payloads">;
  readonly partReader: PartReader;
  readonly large: LargePayloads | null;
};

/** What a run gave, as JSON in one line; `isBase64`: a string of bytes that are no text. */
export type LineValue = {
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>;
  readonly isBase64: boolean;
};

/** A run that has ended, and how large its stored response is. */
export type EndedRun = { readonly run: Run; readonly payload: Payload; readonly bytes: number };

/** A larger response is read in pieces, twice: its reader may be slow, and there may be many readers. */
export const WHOLE_BYTES = 8 * 1024 * 1024;
/** What is read at once of a larger one, and what is worked on before others have their turn. */
const READ_BYTES = 4 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;

type Pieces = () => Iterable<Buffer> | AsyncIterable<Buffer>;
type Kind = "json" | "text" | "bytes";

/** What the run returned, or a list of what it yielded; null if there is nothing, or it is not stored any more. */
export async function valueOf(parts: ValueParts, ended: EndedRun): Promise<LineValue | null> {
  const { run, payload } = ended;
  if (!isFinal(run.state) || run.errorCode !== null) return null;
  if (payload.contentType === STREAM_TYPE) return await listOf(parts, run);
  if (isBodiless(run.statusCode ?? 0)) return { pieces: [Buffer.from("null")], isBase64: false };
  const { result, isBare } = payload;
  if (result && !isServerRun(run)) return { pieces: [unwrapResult(result, isBare)], isBase64: false };
  const pieces = await piecesOf(parts, ended);
  const kind = pieces && (await kindOf(pieces(), hasJsonType(payload)));
  if (!pieces || !kind) return null;
  if (!isServerRun(run)) return { pieces: unwrapPieces(pieces(), isBare), isBase64: false };
  return { pieces: asJson(pieces(), kind), isBase64: kind === "bytes" };
}

/** The stored response, from its beginning each time; null if it is not stored any more. */
async function piecesOf({ store, large }: ValueParts, ended: EndedRun): Promise<Pieces | null> {
  const { run, payload, bytes } = ended;
  const { result, resultBlob } = payload;
  if (result) return () => inPieces(result);
  if (resultBlob && resultBlob.bytes <= WHOLE_BYTES) {
    const whole = await large?.read(resultBlob);
    return whole ? () => inPieces(whole) : null;
  }
  if (resultBlob) return large && (() => large.pieces(resultBlob));
  return bytes > 0 ? () => storedPieces(store, run, bytes) : null;
}

async function* storedPieces(store: ValueParts["store"], key: RunKey, size: number): AsyncGenerator<Buffer> {
  for (let from = 0; from < size; from += READ_BYTES) {
    const { appNumber, id } = key;
    const bytes = await store.payloads.resultPart({ appNumber, id, from, bytes: READ_BYTES });
    if (!bytes) throw new AppError("payload_not_kept");
    yield* inPieces(bytes);
  }
}

async function* inPieces(bytes: Uint8Array): AsyncGenerator<Buffer> {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < whole.length; at += PIECE_BYTES) {
    if (at > 0) await setImmediate();
    yield whole.subarray(at, at + PIECE_BYTES);
  }
}

/** What bytes are; null if they are not stored any more. What calls itself JSON is looked at. */
async function kindOf(pieces: ReturnType<Pieces>, mayBeJson: boolean): Promise<Kind | null> {
  const scan = new JsonScan();
  const text = new Utf8Check();
  let isJson = mayBeJson;
  try {
    for await (const piece of pieces) {
      isJson = isJson && scan.push(piece);
      text.push(piece);
    }
  } catch (error) {
    if (error instanceof AppError && error.code === "payload_not_kept") return null;
    throw error;
  }
  if (!text.isWhole) return "bytes";
  return isJson && scan.isWhole ? "json" : "text";
}

/** Whether bytes that arrive in pieces are UTF-8. */
class Utf8Check {
  #isFaulty = false;
  /** The beginning of a character. */
  #rest: Buffer = Buffer.alloc(0);

  get isWhole(): boolean {
    return !this.#isFaulty && this.#rest.length === 0;
  }

  push(piece: Buffer): void {
    if (this.#isFaulty) return;
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, piece]) : piece;
    const end = wholeCharacters(bytes);
    this.#rest = bytes.subarray(end);
    this.#isFaulty = !isUtf8(bytes.subarray(0, end));
  }
}

/** Where the last character begins if it is not complete; otherwise the end. */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

async function* asJson(pieces: ReturnType<Pieces>, kind: Kind): AsyncGenerator<Buffer> {
  if (kind === "json") {
    // Between its tokens JSON may have line ends, but its line may not.
    for await (const piece of pieces) yield withoutLineEnds(piece);
    return;
  }
  yield QUOTE;
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece;
    const end = kind === "text" ? wholeCharacters(bytes) : bytes.length - (bytes.length % 3);
    rest = bytes.subarray(end);
    const part = bytes.subarray(0, end);
    yield kind === "text"
      ? Buffer.from(JSON.stringify(part.toString()).slice(1, -1))
      : Buffer.from(part.toString("base64"));
  }
  // Of text nothing is left.
  yield Buffer.from(`${rest.toString("base64")}"`);
}

const QUOTE = Buffer.from('"');
const SPACE = 0x20;

function withoutLineEnds(piece: Buffer): Buffer {
  if (!piece.includes("\n") && !piece.includes("\r")) return piece;
  return Buffer.from(piece.map((byte) => (byte === 0x0a || byte === 0x0d ? SPACE : byte)));
}

/** A list of what the run yielded. */
async function listOf({ partReader }: ValueParts, run: Run): Promise<LineValue | null> {
  const transcript = storedTranscript(partReader, run);
  // Without its beginning it is not told at all.
  const first = await transcript.read(0);
  if (first && first[0]?.event !== 1) return null;
  return { pieces: listPieces(transcript), isBase64: false };
}

async function* listPieces(transcript: ReturnType<typeof storedTranscript>): AsyncGenerator<Buffer> {
  let before = "[";
  for await (const chunks of allChunks(transcript)) {
    const pieces: Buffer[] = [];
    for (const { isText, bytes } of chunks) {
      pieces.push(Buffer.from(before), isText ? Buffer.from(JSON.stringify(bytes.toString())) : bytes);
      before = ",";
    }
    yield Buffer.concat(pieces);
  }
  yield Buffer.from(before === "[" ? "[]" : "]");
}
