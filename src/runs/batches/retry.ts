import { AppError } from "../../model/errors.ts";
import { isServerRun, unpackRequest } from "../../model/http-request.ts";
import { hasBatchEnded, type LineBatch } from "../../model/line-batch.ts";
import type { Payload } from "../../model/run.ts";
import type { Terms } from "../../model/terms.ts";
import { NO_WISHES } from "../../model/wishes.ts";
import type { NewLineBatch } from "../../store/batches/line-batches.ts";
import type { Store } from "../../store/store.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { BatchUpload, type UploadParts } from "./upload.ts";

export type RetryParts = Omit<UploadParts, "store"> & {
  readonly store: Store;
  readonly large: LargePayloads | null;
};

/** Lines that are read together. */
const PAGE_LINES = 50;
/** More than any app accepts. */
const MAX_INPUT_BYTES = 2 ** 31 - 1;
const NO_INPUT = Buffer.from("{}");

type Retry = Pick<NewLineBatch, "id" | "ip" | "accountId" | "user" | "trace"> & {
  readonly maxInputBytes: number;
};

/** Makes a new batch of the failed lines of one that has ended; returns it once all its lines are stored. */
export async function retryBatch(parts: RetryParts, batch: LineBatch, retry: Retry): Promise<LineBatch> {
  const { store, steadyClock } = parts;
  if (!hasBatchEnded(batch.state)) throw new AppError("batch_unfinished");
  const { maxInputBytes, ...caller } = retry;
  const { appNumber, functionName, number } = batch;
  const fairnessKey = batch.wishes?.fairnessKey ?? null;
  const nothing = {
    keyHash: null,
    fingerprint: null,
    wishes: fairnessKey === null ? null : { ...NO_WISHES, fairnessKey },
    webhookEndpoint: null,
    sealedSecret: null,
  };
  const createdAt = steadyClock.now();
  const draft = { ...caller, ...nothing, appNumber, functionName, retryOf: batch.id, createdAt };
  const upload = new BatchUpload(parts, draft, null, maxInputBytes);
  try {
    for (let after = -1; ;) {
      const failures = await store.batchLines.failures({ number, after, limit: PAGE_LINES });
      for (const { line, label, runId } of failures) {
        const [stored] = await store.batchLines.runs({
          appNumber,
          ids: [runId],
          side: "input",
          maxBytes: MAX_INPUT_BYTES,
        });
        const input = stored && (await inputOf(parts, batch, stored.payload));
        if (input) await upload.write(lineOf(label ?? String(line), input, stored.run.terms));
        after = line;
      }
      if (failures.length < PAGE_LINES) break;
    }
    if (upload.openBytes === 0 && !upload.batch)
      throw new AppError("payload_not_kept", { message: "No line has failed whose input is still stored." });
    return await upload.finish();
  } catch (error) {
    await upload.breakOff();
    throw error;
  }
}

async function inputOf(
  { large }: RetryParts,
  batch: LineBatch,
  { input, inputBlob }: Payload,
): Promise<Uint8Array | null> {
  const stored = inputBlob ? ((await large?.read(inputBlob)) ?? null) : input;
  // Of a server app: the path is that of the new batch, too.
  return stored && isServerRun(batch) ? unpackRequest(stored).body : stored;
}

/** The same line again, with what of its wishes is not a time. */
function lineOf(label: string, input: Uint8Array, terms: Terms | null): Buffer {
  const { priority = 0, tags = [], maxAttempts = null, concurrencyKey = null } = terms ?? {};
  const asked = {
    ...(priority !== 0 && { priority }),
    ...(tags.length > 0 && { tag: tags }),
    ...(maxAttempts !== null && { max_attempts: maxAttempts }),
    ...(concurrencyKey !== null && { concurrency_key: concurrencyKey }),
  };
  const rest = JSON.stringify(asked).slice(1);
  const body = input.length > 0 ? Buffer.from(input.buffer, input.byteOffset, input.length) : NO_INPUT;
  const joined = rest === "}" ? rest : `,${rest}`;
  return Buffer.concat([Buffer.from(`{"id":${label},"input":`), body, Buffer.from(`${joined}\n`)]);
}
