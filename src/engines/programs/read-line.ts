import type { Readable } from "node:stream";

const NEWLINE = 10;

/** The next line of a stream, without its end; what comes after it stays there. Null if the stream ends before that. */
export async function readLine(stream: Readable, maxBytes: number): Promise<string | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const piece = await readUpTo(stream, (chunk) => chunk.indexOf(NEWLINE) + 1 || chunk.length);
    if (piece === null) return null;
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`a line of more than ${maxBytes} bytes`);
    pieces.push(piece);
    if (piece.at(-1) === NEWLINE) return Buffer.concat(pieces).toString("utf8", 0, bytes - 1);
  }
}

/** So many bytes of a stream, in pieces as they come. Throws if it ends before that. */
export async function* readBytes(stream: Readable, count: number): AsyncGenerator<Buffer> {
  for (let left = count; left > 0;) {
    const piece = await readUpTo(stream, () => left);
    if (piece === null) throw new Error("it ended in the middle of a file");
    left -= piece.length;
    yield piece;
  }
}

/** What has come, as much as is wanted of it; null at the end. */
async function readUpTo(stream: Readable, wanted: (chunk: Buffer) => number): Promise<Buffer | null> {
  for (;;) {
    const chunk = stream.read() as Buffer | null;
    if (chunk !== null) {
      const size = wanted(chunk);
      // At once: a stream that was read to its end, for a moment, is over.
      if (size < chunk.length) stream.unshift(chunk.subarray(size));
      return chunk.subarray(0, size);
    }
    if (stream.readableEnded || stream.destroyed) return null;
    await nextEvent(stream);
  }
}

async function nextEvent(stream: Readable): Promise<void> {
  const events = ["readable", "end", "close", "error"] as const;
  await new Promise<void>((resolve) => {
    const settle = (): void => {
      for (const name of events) stream.off(name, settle);
      resolve();
    };
    for (const name of events) stream.on(name, settle);
  });
}
