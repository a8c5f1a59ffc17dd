import { parentPort } from "node:worker_threads";
import { checkJson, type JsonFault } from "../../kit/json/check-json.ts";
import { memberNames } from "../../kit/json/keys.ts";

/** What it found: a fault, or the names of the object's members. */
export type Checked = { readonly fault: JsonFault | null; readonly names: readonly string[] };

/** What the thread is sent: a body is all pieces up to a last one. */
export type BodyPiece = { readonly piece: Uint8Array<ArrayBuffer>; readonly isLast: boolean };

// The thread behind `checkJsonOffThread`: it receives a body in pieces, and after the last piece it sends what it
// found.
let pieces: Uint8Array[] = [];
parentPort?.on("message", ({ piece, isLast }: BodyPiece) => {
  pieces.push(piece);
  if (!isLast) return;
  const body = Buffer.concat(pieces);
  pieces = [];
  const fault = checkJson(body);
  const found: Checked = { fault, names: fault ? [] : memberNames(body) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort?.postMessage(found);
});
