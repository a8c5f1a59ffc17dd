import type { BlobStore } from "./blob-store.ts";

/** Who says which blobs are wanted. */
export type Names = {
  /** Of these hashes, those that something names. */
  readonly named: (hashes: readonly string[]) => Promise<readonly string[]>;
  /** These blobs are gone. */
  readonly forget?: (hashes: readonly string[]) => Promise<void>;
};

const AT_ONCE = 500;

/** Removes every blob that was put before that time and that nothing names; gives how many. */
export async function collectBlobs(
  blobs: BlobStore,
  { named, forget }: Names,
  putBefore: number,
  signal: AbortSignal,
): Promise<number> {
  let count = 0;
  let old: string[] = [];
  const collect = async (): Promise<void> => {
    if (old.length === 0) return;
    const wanted = new Set(await named(old));
    const gone: string[] = [];
    for (const hash of old.filter((each) => !wanted.has(each)))
      if (await blobs.remove(hash, putBefore)) gone.push(hash);
    if (gone.length > 0) await forget?.(gone);
    count += gone.length;
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
