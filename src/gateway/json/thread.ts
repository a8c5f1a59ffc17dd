import { parentPort } from "node:worker_threads";
import { checkJson } from "./check-json.ts";

/** What the thread is sent: a body is all pieces up to a last one. */
export type BodyPiece = { readonly piece: Uint8Array<ArrayBuffer>; readonly isLast: boolean };

// The whole of the thread behind `checkJsonOffThread`: pieces come in, and after a last one its body's fault or
// null goes out.
let pieces: Uint8Array[] = [];
parentPort?.on("message", ({ piece, isLast }: BodyPiece) => {
  pieces.push(piece);
  if (!isLast) return;
  const body = Buffer.concat(pieces);
  pieces = [];
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort?.postMessage(checkJson(body));
});
