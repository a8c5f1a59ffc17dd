import type { BlobStore } from "./blob-store.ts";

/** Who proves it, and to whom. */
export type Sharing = {
  readonly instanceId: string;
  readonly nodeId: string;
  /** The ids of the other nodes that live now. */
  readonly others: readonly string[];
};

/**
 * Proves that this node keeps its blobs where the others do: each leaves a note there and reads those of the others. Throws
 * what to do. Called before a node joins and again after: of two that join at once, one sees the other then.
 */
export async function proveShared(blobs: BlobStore, { instanceId, nodeId, others }: Sharing): Promise<void> {
  await blobs.writeNote(noteOf(instanceId, nodeId), nodeId);
  const missing: string[] = [];
  for (const other of others) {
    if (other === nodeId) continue;
    if ((await blobs.readNote(noteOf(instanceId, other))) !== other) missing.push(other);
  }
  if (missing.length > 0) throw new NotShared(blobs, missing);
}

/** A node that leaves takes its note with it. */
export async function endSharing(
  blobs: BlobStore,
  { instanceId, nodeId }: Pick<Sharing, "instanceId" | "nodeId">,
): Promise<void> {
  await blobs.removeNote(noteOf(instanceId, nodeId));
}

/** Removes the notes of nodes that are gone, and went without taking theirs along: those written before that time. */
export async function forgetGone(
  blobs: BlobStore,
  gone: { readonly instanceId: string; readonly living: readonly string[]; readonly before: number },
): Promise<void> {
  const { instanceId, living, before } = gone;
  const kept = new Set(living.map((id) => noteOf(instanceId, id)));
  for await (const { name, writtenAt } of blobs.listNotes(instanceId))
    if (writtenAt < before && !kept.has(name)) await blobs.removeNote(name);
}

function noteOf(instanceId: string, nodeId: string): string {
  return `${instanceId}/${nodeId}`;
}

/** The nodes of an installation keep their blobs in different places. */
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
