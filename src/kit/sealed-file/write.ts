import { randomBytes } from "node:crypto";
import type { ByteSink } from "../byte-file.ts";
import { SALT_BYTES, deriveKeys, packHead, sealChunk } from "./format.ts";
import type { SealKeys } from "./format.ts";

/** A try takes half a second and 128 MiB; a chunk is one write. */
const USUAL = { costBits: 17, chunkBytes: 1024 * 1024 } as const;

/** Seals what is written with a passphrase, and passes it on. */
export class SealedSink implements ByteSink {
  readonly #to: ByteSink;
  readonly #keys: SealKeys;
  readonly #head: Buffer;
  readonly #chunk: Buffer;
  #used = 0;
  #number = 0;

  private constructor(to: ByteSink, keys: SealKeys, head: Buffer, chunkBytes: number) {
    this.#to = to;
    this.#keys = keys;
    this.#head = head;
    this.#chunk = Buffer.alloc(chunkBytes);
  }

  static async over(
    to: ByteSink,
    passphrase: string,
    { costBits, chunkBytes }: { costBits: number; chunkBytes: number } = USUAL,
  ): Promise<SealedSink> {
    const terms = { costBits, chunkBytes, salt: randomBytes(SALT_BYTES) };
    const keys = await deriveKeys(passphrase, terms);
    const head = packHead(terms, keys);
    await to.write(head);
    return new SealedSink(to, keys, head, chunkBytes);
  }

  async write(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      // Only when more comes: the last one is marked, and may be full.
      if (this.#used === this.#chunk.length) await this.#flush(false);
      const taken = bytes.copy(this.#chunk, this.#used, at);
      this.#used += taken;
      at += taken;
    }
  }

  async finish(): Promise<void> {
    await this.#flush(true);
    await this.#to.finish();
  }

  async abandon(): Promise<void> {
    await this.#to.abandon();
  }

  async #flush(isLast: boolean): Promise<void> {
    const position = { number: this.#number++, isLast };
    await this.#to.write(sealChunk(this.#chunk.subarray(0, this.#used), position, this.#keys, this.#head));
    this.#used = 0;
  }
}
