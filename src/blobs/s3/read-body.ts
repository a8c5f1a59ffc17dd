import type { IncomingMessage } from "node:http";

/** All of an answer's body; throws, and lets go of the connection, when it is larger. */
export async function readBody(answer: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error("an answer of the blob store is too large");
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}
