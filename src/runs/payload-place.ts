import { randomUUID } from "node:crypto";
import type { BlobStore } from "../blobs/blob-store.ts";
import type { Store } from "../store/store.ts";

const KEY = "payloads_mark";
const NOTE = "mark";

/**
 * The place of large payloads, which bears a mark since this installation first kept some there. One without it is another:
 * a folder in which nothing is mounted, a wrong bucket. What is missing there is not gone.
 */
export class PayloadPlace {
  readonly #blobs: BlobStore;
  readonly #mark: string;

  private constructor(blobs: BlobStore, mark: string) {
    this.#blobs = blobs;
    this.#mark = mark;
  }

  static async open(blobs: BlobStore, { meta }: Pick<Store, "meta">): Promise<PayloadPlace> {
    const known = await meta.get(KEY);
    if (known !== null) return new PayloadPlace(blobs, known);
    const value = randomUUID();
    // First the mark, then that there is one; of several that begin at once each leaves the mark that counts.
    await blobs.writeNote(NOTE, value);
    const mark = await meta.setIfAbsent({ key: KEY, value });
    if (mark !== value) await blobs.writeNote(NOTE, mark);
    return new PayloadPlace(blobs, mark);
  }

  /** Throws where the mark is not. */
  async check(): Promise<void> {
    if ((await this.#blobs.readNote(NOTE)) === this.#mark) return;
    throw new Error(
      `${this.#blobs.place} is not where this installation keeps large payloads: mount it, or set MILLRACE_BLOBS`,
    );
  }
}
