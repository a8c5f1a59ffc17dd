import type { Readable } from "node:stream";

const NEWLINE = 10;

/** The next line of a stream, without its end; what comes after it stays there. Null if the stream ends before that. */
export async function readLine(stream: Readable, maxBytes: number): Promise<string | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const chunk = await readSome(stream);
    if (chunk === null) return null;
    const end = chunk.indexOf(NEWLINE);
    bytes += end < 0 ? chunk.length : end;
    if (bytes > maxBytes) throw new Error(`a line of more than ${maxBytes} bytes`);
    if (end < 0) {
      pieces.push(chunk);
      continue;
    }
    if (end + 1 < chunk.length) stream.unshift(chunk.subarray(end + 1));
    return Buffer.concat([...pieces, chunk.subarray(0, end)]).toString("utf8");
  }
}

/** So many bytes of a stream, in pieces as they come. Throws if it ends before that. */
export async function* readBytes(stream: Readable, count: number): AsyncGenerator<Buffer> {
  let left = count;
  while (left > 0) {
    const chunk = await readSome(stream);
    if (chunk === null) throw new Error("it ended in the middle of a file");
    if (chunk.length > left) stream.unshift(chunk.subarray(left));
    const piece = chunk.subarray(0, left);
    left -= piece.length;
    yield piece;
  }
}

async function readSome(stream: Readable): Promise<Buffer | null> {
  for (;;) {
    const chunk = stream.read() as Buffer | null;
    if (chunk !== null) return chunk;
    if (stream.readableEnded || stream.destroyed) return null;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        for (const name of ["readable", "end", "close", "error"]) stream.off(name, settle);
        resolve();
      };
      for (const name of ["readable", "end", "close", "error"]) stream.on(name, settle);
    });
  }
}
