import { errorIn, fits } from "../../src/shapes/shape.ts";
import { STORED_PART } from "../../src/shapes/projects.ts";
import { ApiError } from "./answer.ts";
import { beginUpload, completeUpload } from "./files.ts";
import type { StoredPart, UploadPart } from "./files.ts";

const PART_BYTES = 8 * 1024 * 1024;
/** The service takes no more; a file too large for parts of the usual size has larger ones. */
const MAX_PARTS = 10_000;
const AT_ONCE = 3;
const TRIES = 3;
const PAUSE_MS = 1_000;

/** Sends a file to the persistent storage in parts, some at once; `onBytes` hears how many have left. */
export async function uploadFile(
  projectId: string,
  filePath: string,
  file: File,
  onBytes: (sentBytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const partBytes = Math.max(PART_BYTES, Math.ceil(file.size / MAX_PARTS));
  const upload = await beginUpload(projectId, filePath, Math.ceil(file.size / partBytes));
  signal.throwIfAborted();
  if (upload.parts.length === 0) return;
  const sent = new Map<number, number>();
  const stored: StoredPart[] = [];
  const waiting = [...upload.parts];
  const work = async (): Promise<void> => {
    for (let part = waiting.shift(); part; part = waiting.shift()) {
      const { number } = part;
      const piece = file.slice((number - 1) * partBytes, number * partBytes);
      const onPart = (partSent: number): void => {
        sent.set(number, partSent);
        onBytes([...sent.values()].reduce((sum, some) => sum + some, 0));
      };
      stored.push({ part_number: number, etag: await persist(part, piece, onPart, signal) });
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } catch (error) {
    waiting.length = 0;
    throw error;
  }
  const parts = stored.toSorted((one, other) => one.part_number - other.part_number);
  await completeUpload(projectId, filePath, { uploadId: upload.uploadId, parts });
}

/** Sends a part, again when the connection broke: the service takes it again. */
async function persist(
  part: UploadPart,
  piece: Blob,
  onBytes: (sentBytes: number) => void,
  signal: AbortSignal,
): Promise<string> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await put(part.path, piece, onBytes, signal);
    } catch (error) {
      const isOurs = error instanceof ApiError && error.status < 500;
      if (signal.aborted || isOurs || tried === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * tried));
    }
  }
}

/** One part, by the old way of asking: the new one does not say how much has left. */
async function put(
  path: string,
  piece: Blob,
  onBytes: (sentBytes: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const request = new XMLHttpRequest();
  const stop = (): void => request.abort();
  try {
    return await new Promise((resolve, reject) => {
      signal.throwIfAborted();
      signal.addEventListener("abort", stop);
      request.open("PUT", path);
      request.responseType = "json";
      request.upload.addEventListener("progress", ({ loaded }) => onBytes(loaded));
      request.addEventListener("load", () => {
        const body: unknown = request.response;
        if (request.status === 200 && fits(STORED_PART, body)) resolve(body.etag);
        else reject(new ApiError(request.status, errorIn(body)));
      });
      request.addEventListener("error", () => reject(new TypeError("The connection broke.")));
      request.addEventListener("abort", () => reject(new DOMException("Cancelled.", "AbortError")));
      request.send(piece);
    });
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
