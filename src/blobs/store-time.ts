import type { BlobStore } from "./blob-store.ts";

const FOLDER = "clock";
const NOTE = `${FOLDER}/now`;

/**
 * What the time is by the clock that says when blobs were put: a file server's, or a bucket's. By that of a machine whose
 * clock is wrong a blob that was put just now could seem old.
 */
export async function storeTime(blobs: BlobStore): Promise<number> {
  await blobs.writeNote(NOTE, "");
  for await (const { name, writtenAt } of blobs.listNotes(FOLDER)) if (name === NOTE) return writtenAt;
  throw new Error(`${blobs.place} does not have what was just written there`);
}
