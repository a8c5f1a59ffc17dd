import { BadTar } from "../../kit/tar/archive.ts";
import { AppError } from "../../model/errors.ts";

/** Bytes that arrive in pieces of any size, taken in pieces of the taker's. */
export class ByteSource {
  readonly #pieces: AsyncIterator<Buffer>;
  readonly #maxBytes: number;
  #rest: Buffer = Buffer.alloc(0);
  #arrivedBytes = 0;

  constructor(from: AsyncIterable<Buffer>, maxBytes: number) {
    this.#pieces = from[Symbol.asyncIterator]();
    this.#maxBytes = maxBytes;
  }

  /** Exactly so many; throws `BadTar` when there are fewer, and `body_too_large` past the limit. */
  async take(count: number): Promise<Buffer> {
    const parts = [this.#rest];
    let bytes = this.#rest.length;
    while (bytes < count) {
      const { done, value } = await this.#pieces.next();
      if (done === true) throw new BadTar("it ends too early");
      this.#arrivedBytes += value.length;
      if (this.#arrivedBytes > this.#maxBytes) {
        throw new AppError("body_too_large", {
          message: `The archive is larger than ${this.#maxBytes} bytes.`,
        });
      }
      parts.push(value);
      bytes += value.length;
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts, bytes);
    this.#rest = all.subarray(count);
    return all.subarray(0, count);
  }
}
