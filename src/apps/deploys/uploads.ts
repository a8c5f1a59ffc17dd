import path from "node:path";
import type { Readable } from "node:stream";
import { mkdir, open, rename, rm, withHandle, writeChunks } from "../../kit/files.ts";
import { AppError } from "../../model/errors.ts";
import { syncFolder } from "../bundles/place-folder.ts";

type ReceiveLimits = {
  readonly maxBytes: number;
  /** Whether the disk is to take no more. */
  readonly shortage?: () => string | null;
};

const FULL: ReadonlySet<string | undefined> = new Set(["ENOSPC", "EDQUOT", "EROFS"]);

/** Stores a stream as a private file, synced. On an error nothing is left, and the stream stays open for the answer. */
export async function receiveFile(
  from: Readable,
  to: string,
  limits: ReceiveLimits,
): Promise<{ bytes: number }> {
  const arriving = `${to}.part`;
  const tally = { bytes: 0 };
  try {
    await mkdir(path.dirname(to), { recursive: true, mode: 0o700 });
    await withHandle(await open(arriving, "w", 0o600), async (file) => {
      await writeChunks(file, counted(from, limits, tally));
      await file.sync();
    });
    await rename(arriving, to);
    await syncFolder(path.dirname(to));
    return tally;
  } catch (error) {
    await rm(arriving, { force: true });
    throw told(error);
  }
}

/** An error of the stream itself, not of the disk. */
class EndedEarly extends Error {}

async function* counted(
  from: Readable,
  { maxBytes, shortage }: ReceiveLimits,
  tally: { bytes: number },
): AsyncGenerator<Buffer> {
  const chunks: AsyncIterator<Buffer> = from.iterator({ destroyOnReturn: false });
  try {
    for (;;) {
      const next = await chunks.next().catch((error: unknown) => {
        throw new EndedEarly("the stream ended early", { cause: error });
      });
      if (next.done) return;
      tally.bytes += next.value.length;
      if (tally.bytes > maxBytes)
        throw new AppError("body_too_large", { message: `The upload is larger than ${maxBytes} bytes.` });
      const message = shortage?.() ?? null;
      if (message !== null) throw new AppError("storage_unavailable", { message });
      yield next.value;
    }
  } finally {
    await chunks.return?.();
  }
}

function told(error: unknown): unknown {
  if (error instanceof EndedEarly)
    return new AppError("bad_request", { message: "The upload ended early; send it again." }, error.cause);
  const { code } = error as NodeJS.ErrnoException;
  return FULL.has(code) ? new AppError("storage_unavailable", {}, error) : error;
}

/** Reads a bundle that is not needed: a sender whose body is not read to the end takes the answer for a failure. */
export async function readPast(from: Readable, maxBytes: number): Promise<void> {
  let bytes = 0;
  for await (const chunk of from as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new AppError("body_too_large");
  }
}
