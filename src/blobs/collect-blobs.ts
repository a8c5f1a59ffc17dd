import type { BlobStore } from "./blob-store.ts";

/** Of these hashes, those that something names. */
type Named = (hashes: readonly string[]) => Promise<readonly string[]>;

const AT_ONCE = 500;

/** Removes every blob that was put before that time and that nothing names; gives how many. */
export async function collectBlobs(
  blobs: BlobStore,
  named: Named,
  putBefore: number,
  signal: AbortSignal,
): Promise<number> {
  let count = 0;
  let old: string[] = [];
  const collect = async (): Promise<void> => {
    if (old.length === 0) return;
    const wanted = new Set(await named(old));
    for (const hash of old.filter((each) => !wanted.has(each)))
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
