import type { BlobStore } from "./blob-store.ts";

/** A node of an installation. */
type SharingNode = { readonly instanceId: string; readonly nodeId: string };

/**
 * Proves that this node stores its blobs in the same place as the other living nodes: each writes a note there and reads
 * those of the others. Throws with the remedy. Called before a node joins and again after: of two that join at once, the
 * second call of one sees the other.
 */
export async function proveShared(
  blobs: BlobStore,
  { instanceId, nodeId, others }: SharingNode & { readonly others: readonly string[] },
) {
  await blobs.writeNote(noteOf(instanceId, nodeId), nodeId);
  const missing: string[] = [];
  for (const other of others) {
    if (other === nodeId) continue;
    if ((await blobs.readNote(noteOf(instanceId, other))) !== other) missing.push(other);
  }
  if (missing.length > 0) throw new NotShared(blobs, missing);
}

/** Removes the note of a node that leaves. */
export async function endSharing(blobs: BlobStore, { instanceId, nodeId }: SharingNode): Promise<void> {
  await blobs.removeNote(noteOf(instanceId, nodeId));
}

type Gone = { readonly instanceId: string; readonly living: readonly string[]; readonly before: number };

/** Removes the notes of nodes that are not living, if they were written before that time. */
export async function forgetGone(blobs: BlobStore, { instanceId, living, before }: Gone): Promise<void> {
  const kept = new Set(living.map((id) => noteOf(instanceId, id)));
  for await (const { name, writtenAt } of blobs.listNotes(instanceId))
    if (writtenAt < before && !kept.has(name)) await blobs.removeNote(name);
}

function noteOf(instanceId: string, nodeId: string): string {
  return `${instanceId}/${nodeId}`;
}

/** The nodes of an installation store their blobs in different places. */
export class NotShared extends Error {
  constructor({ kind, place }: BlobStore, missing: readonly string[]) {
    const whose = missing.length === 1 ? `the service ${missing[0]}` : `the services ${missing.join(", ")}`;
    const what =
      kind === "directory"
        ? "a directory that all of them see, or an S3 bucket,"
        : "the same bucket and prefix";
    super(
      `${place} is not where ${whose} of this installation ${missing.length === 1 ? "keeps its" : "keep their"} blobs: ` +
        `set MILLRACE_BLOBS to ${what} on every machine, and start again`,
    );
    this.name = "NotShared";
  }
}
