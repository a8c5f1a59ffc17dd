import type { BlobStore } from "../../blobs/blob-store.ts";
import type { Store } from "../../store/store.ts";

/** So long a blob is left alone after it was put: a build may be about to name it, and may take three hours. */
export const YOUNG_MS = 24 * 60 * 60 * 1000;
const AT_ONCE = 500;

/** Removes every blob that was put before that time and that no version names; gives how many. */
export async function collectBlobs(
  blobs: BlobStore,
  store: Pick<Store, "versionBlobs">,
  putBefore: number,
  signal: AbortSignal,
): Promise<number> {
  let count = 0;
  let old: string[] = [];
  const collect = async (): Promise<void> => {
    const named = new Set(old.length === 0 ? [] : await store.versionBlobs.named(old));
    for (const hash of old.filter((each) => !named.has(each)))
      if (await blobs.remove(hash, putBefore)) count += 1;
    old = [];
  };
  for await (const { hash, putAt } of blobs.list()) {
    if (signal.aborted) return count;
    if (putAt < putBefore) old.push(hash);
    if (old.length >= AT_ONCE) await collect();
  }
  await collect();
  await blobs.tidy(putBefore);
  return count;
}
