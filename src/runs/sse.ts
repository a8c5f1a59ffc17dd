const LF = 10;
const CR = 13;
const DATA_FIELD = Buffer.from("data: ");
const MESSAGE_END_BYTES = 2;
const FRAME_BYTES = DATA_FIELD.length + MESSAGE_END_BYTES;
const LINE_BREAK = /\r\n|\r|\n/;

/** Up to here a loop over the bytes beats the fixed cost of native search and copy (`bench/micro-sse.ts`). */
const SHORT_BYTES = 64;

/** Most ticks of a stream fit, and a page is cheap to keep. */
const SCRATCH_BYTES = 4096;
/** 1 MiB of scratch buffers. */
const MAX_SPARE_SCRATCHES = 256;
/** Scratch buffers that no stream writes to; shared, because most of ten thousand open streams are idle. */
const spareScratches: Buffer[] = [];
const EMPTY = Buffer.alloc(0);

/** `sse` of an app's configuration: "auto" forwards complete SSE text as it is, "wrap" never does. */
export type SseMode = "auto" | "wrap";

/**
 * Gathers the messages of one tick as SSE text, in one buffer. Each chunk is one message and never another field. CRLF, CR
 * and LF in it begin a further `data:` line, which a parser joins with LF. An empty chunk is dispatched with empty data.
 */
export class SseBuffer {
  readonly #isAuto: boolean;
  #out: Buffer = EMPTY;
  #used = 0;

  constructor(mode: SseMode) {
    this.#isAuto = mode === "auto";
  }

  get bytes(): number {
    return this.#used;
  }

  /** One message, or in mode "auto" the chunk as it is if it is text and complete SSE text. */
  addChunk(chunk: { readonly isText: boolean; readonly bytes: Buffer }): void {
    const { bytes } = chunk;
    if (this.#isAuto && chunk.isText && isCompleteSse(bytes)) this.#addRaw(bytes);
    else this.#addData(bytes);
  }

  /** A line that parsers skip, with a blank line for clients that split at blank lines. */
  addComment(text: string): void {
    const lines = text.split(LINE_BREAK).map((line) => `: ${line}\n`);
    this.#addRaw(Buffer.from(`${lines.join("")}\n`));
  }

  /** The same with a number from which a reader can continue; it replaces a number of the app's own. */
  addNumbered(event: number, chunk: { readonly isText: boolean; readonly bytes: Buffer }): void {
    const { bytes } = chunk;
    if (this.#isAuto && chunk.isText && isCompleteSse(bytes)) this.#addRaw(renumber(bytes, event));
    else {
      this.#addRaw(Buffer.from(`id: ${event}\n`));
      this.#addData(bytes);
    }
  }

  addEvent(name: string, data: string, event?: number): void {
    if (LINE_BREAK.test(name)) throw new Error("the name of an event is one line");
    this.#addRaw(Buffer.from(event === undefined ? `event: ${name}\n` : `event: ${name}\nid: ${event}\n`));
    this.#addData(Buffer.from(data));
  }

  /** Everything gathered since the last call; the buffer is never written again. */
  take(): Buffer {
    const out = this.#out;
    const used = this.#used;
    this.#out = EMPTY;
    this.#used = 0;
    // A grown buffer is not copied: it is at least half full, and a copy would cost more than a new one.
    if (out.length > SCRATCH_BYTES) return out.subarray(0, used);
    if (used === 0) return EMPTY;
    const taken = Buffer.allocUnsafe(used);
    out.copy(taken, 0, 0, used);
    if (spareScratches.length < MAX_SPARE_SCRATCHES) spareScratches.push(out);
    return taken;
  }

  #addRaw(bytes: Buffer): void {
    this.#reserve(bytes.length);
    this.#out.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  #addData(bytes: Buffer): void {
    const { length } = bytes;
    this.#reserve(length + FRAME_BYTES);
    const out = this.#out;
    let at = writeDataField(out, this.#used);
    if (length <= SHORT_BYTES) {
      for (let i = 0; i < length; i++) {
        const byte = bytes[i]!;
        // What was written so far is not counted yet, so it is overwritten.
        if (byte === LF || byte === CR) return this.#addLines(bytes);
        out[at++] = byte;
      }
    } else {
      if (bytes.includes(LF) || bytes.includes(CR)) return this.#addLines(bytes);
      out.set(bytes, at);
      at += length;
    }
    out[at] = LF;
    out[at + 1] = LF;
    this.#used = at + MESSAGE_END_BYTES;
  }

  #addLines(bytes: Buffer): void {
    const { length } = bytes;
    this.#reserve(length + FRAME_BYTES + countBreaks(bytes) * (DATA_FIELD.length + 1));
    const out = this.#out;
    let at = writeDataField(out, this.#used);
    for (let i = 0; i < length; i++) {
      const byte = bytes[i]!;
      if (byte !== LF && byte !== CR) {
        out[at++] = byte;
        continue;
      }
      if (byte === CR && bytes[i + 1] === LF) i += 1;
      out[at] = LF;
      at = writeDataField(out, at + 1);
    }
    out[at] = LF;
    out[at + 1] = LF;
    this.#used = at + MESSAGE_END_BYTES;
  }

  #reserve(bytes: number): void {
    const needed = this.#used + bytes;
    const old = this.#out;
    if (needed <= old.length) return;
    if (needed <= SCRATCH_BYTES) {
      this.#out = spareScratches.pop() ?? Buffer.allocUnsafeSlow(SCRATCH_BYTES);
      return;
    }
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, old.length * 2));
    old.copy(grown, 0, 0, this.#used);
    this.#out = grown;
    if (old.length === SCRATCH_BYTES && spareScratches.length < MAX_SPARE_SCRATCHES) spareScratches.push(old);
  }
}

/** Byte by byte: a native copy of six bytes costs more than the whole of a short message. */
function writeDataField(out: Buffer, at: number): number {
  out[at] = 0x64;
  out[at + 1] = 0x61;
  out[at + 2] = 0x74;
  out[at + 3] = 0x61;
  out[at + 4] = 0x3a;
  out[at + 5] = 0x20;
  return at + 6;
}

function countBreaks(bytes: Buffer): number {
  let count = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === LF || (byte === CR && bytes[i + 1] !== LF)) count += 1;
  }
  return count;
}

const FIELDS = ["data:", "event:", "id:", "retry:", ":"].map((name) => Buffer.from(name));

/** Whether text may be sent as it is: LF only, a blank line at the end, only fields and comments, `data:` in each block. */
function isCompleteSse(bytes: Buffer): boolean {
  const { length } = bytes;
  // True for nearly every chunk that is not SSE text.
  if (length < 2 || bytes[length - 1] !== LF || bytes[length - 2] !== LF) return false;
  let hasMessage = false;
  let isInBlock = false;
  let hasData = false;
  let at = 0;
  while (at < length) {
    if (bytes[at] === LF) {
      if (isInBlock && !hasData) return false;
      hasMessage ||= hasData;
      isInBlock = false;
      hasData = false;
      at += 1;
      continue;
    }
    const field = FIELDS.findIndex((name) => startsWith(bytes, at, name));
    if (field === -1) return false;
    isInBlock = true;
    hasData ||= field === 0;
    at += FIELDS[field]!.length;
    for (let byte = bytes[at]; byte !== LF; byte = bytes[++at]) {
      if (byte === CR) return false;
    }
    at += 1;
  }
  return hasMessage;
}

/** Complete SSE text with one number, on its last message: a reader of that one has read them all. */
function renumber(bytes: Buffer, event: number): Buffer {
  const lines = bytes
    .toString()
    .split("\n")
    .filter((line) => !line.startsWith("id:"));
  while (lines.at(-1) === "") lines.pop();
  lines.splice(lines.lastIndexOf("") + 1, 0, `id: ${event}`);
  return Buffer.from(`${lines.join("\n")}\n\n`);
}

function startsWith(bytes: Buffer, at: number, name: Buffer): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[at + i] !== name[i]) return false;
  return true;
}
