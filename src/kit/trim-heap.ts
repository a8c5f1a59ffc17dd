import { DatabaseSync } from "node:sqlite";

/** What SQLite says when an entry point answers anything but 0, as `malloc_trim` does if it gave pages back. */
const CALLED = /^error during initialization/;

/**
 * Gives the free pages within the C heap back to the system; false if there were none, or if this is not glibc. By
 * itself glibc gives back only what is free at the heap's end: after a load, a few small blocks there kept 40 MB.
 *
 * Node cannot call `malloc_trim`. SQLite can: it calls any function of a library that it is told is the entry point of
 * an extension. The argument that it passes means how much is to stay free at the heap's end, and does no harm.
 */
export function trimHeap(): boolean {
  const database = new DatabaseSync(":memory:", { allowExtension: true });
  try {
    database.loadExtension("libc.so.6", "malloc_trim");
    return false;
  } catch (error) {
    return CALLED.test((error as Error).message);
  } finally {
    database.close();
  }
}
