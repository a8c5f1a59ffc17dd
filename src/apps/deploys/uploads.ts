import path from "node:path";
import type { Readable } from "node:stream";
import { rm } from "../../kit/files.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Seal } from "../../kit/seal.ts";
import { AppError } from "../../model/errors.ts";
import { receiveFile } from "../bundles/receive.ts";
import { Grants } from "../grants.ts";
import type { ZipSource } from "./carry-out.ts";

export type BundleUploadParts = {
  readonly dir: string;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly maxBytes: number;
  /** Whether the disk is to take no more. */
  readonly shortage: () => string | null;
};

/** How long a build waits for its upload. */
export const UPLOAD_LIFE_MS = 3_600_000;
const PURPOSE = "bundle upload";

/** Bundles on their way in, and the right to send them. */
export class BundleUploads {
  readonly #parts: BundleUploadParts;
  readonly #grants: Grants;
  /** Each arrival has a file of its own: a sender who tries again need not wait for the try before. */
  #arrivals = 0;

  constructor(parts: BundleUploadParts) {
    this.#parts = parts;
    this.#grants = new Grants(parts.seal, parts.clock);
  }

  /** The right to send a build's bundle. */
  give(buildId: string): string {
    return this.#grants.give(PURPOSE, { buildId }, UPLOAD_LIFE_MS);
  }

  /** Which build a right is for; throws `forbidden` when it is none, or no longer. */
  read(grant: string): string {
    const granted = this.#grants.read(PURPOSE, grant) as { readonly buildId: string } | null;
    if (granted) return granted.buildId;
    throw new AppError("forbidden", { message: "The upload address is invalid or has expired." });
  }

  /** Stores a bundle as it arrives; resolves with its file, safely on the disk. */
  async receive(buildId: string, from: Readable): Promise<ZipSource> {
    const { dir, maxBytes, shortage } = this.#parts;
    this.#arrivals += 1;
    const file = path.join(dir, `${buildId}.${this.#arrivals}.zip`);
    const { bytes } = await receiveFile(from, file, { maxBytes, shortage });
    return { kind: "zip", file, bytes };
  }

  /** Reads a bundle that nobody needs: a sender who is not read to the end takes the answer for a failure. */
  async readPast(from: Readable): Promise<void> {
    let bytes = 0;
    for await (const chunk of from as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > this.#parts.maxBytes) throw new AppError("body_too_large");
    }
  }

  async discard({ file }: ZipSource): Promise<void> {
    await rm(file, { force: true });
  }
}
