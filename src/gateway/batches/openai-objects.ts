import { hasBatchEnded, type LineBatch } from "../../model/line-batch.ts";
import { AppError } from "../../model/errors.ts";
import type { RequestFault } from "../../runs/batches/openai-lines.ts";
import type { BatchFile, OpenAiBatch } from "../../store/batches/openai-batches.ts";

/** What was asked of a batch, and what is wrong with its file. */
export type BatchDetails = {
  readonly endpoint: string;
  readonly inputFileId: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly faults: readonly RequestFault[];
};

/** A file of a batch: one that was uploaded, or the results or errors of a batch. */
export type FileName = { readonly kind: "input" | "output" | "errors"; readonly id: string };

const PREFIXES = { input: "file-", output: "file-out", errors: "file-err" } as const;
const FILE_ID = /^file-(out|err)?([0-9a-f]{32})$/;
const BATCH_ID = /^batch_([0-9a-f]{32})$/;
/** Within it the runs of a batch have to begin: the only `completion_window` that OpenAI knows. */
const WINDOW_MS = 24 * 3600 * 1000;

export function fileId(kind: FileName["kind"], id: string): string {
  return PREFIXES[kind] + id.replaceAll("-", "");
}

/** Reads the id of a file. */
export function readFileId(text: string): FileName {
  const [, kind, digits] = FILE_ID.exec(text) ?? [];
  if (digits === undefined) throw new AppError("not_found", { message: `There is no file ${shown(text)}.` });
  return { kind: kind === "out" ? "output" : kind === "err" ? "errors" : "input", id: uuidOf(digits) };
}

/** Reads the id of a batch. */
export function readBatchId(text: string): string {
  const [, digits] = BATCH_ID.exec(text) ?? [];
  if (digits === undefined) throw new AppError("batch_not_found");
  return uuidOf(digits);
}

/** A file that was uploaded, as OpenAI's clients know it. */
export function fileObject({ id, bytes, name, purpose, createdAt, expiresAt }: BatchFile): object {
  return {
    id: fileId("input", id),
    object: "file",
    bytes,
    created_at: seconds(createdAt),
    expires_at: seconds(expiresAt),
    filename: name,
    purpose,
    status: "processed",
  };
}

/** A file of results or errors. */
export function resultFileObject({ kind, id }: FileName, batch: LineBatch, bytes: number): object {
  return {
    id: fileId(kind, id),
    object: "file",
    bytes,
    created_at: seconds(batch.completedAt),
    filename: `batch_${id.replaceAll("-", "")}_${kind === "errors" ? "error" : "output"}.jsonl`,
    purpose: "batch_output",
    status: "processed",
  };
}

/** A batch as OpenAI's clients know it; `lines` is null if its file was invalid. */
export function batchObject({ id, details: text, createdAt }: OpenAiBatch, lines: LineBatch | null): object {
  const { endpoint, inputFileId, metadata, faults } = JSON.parse(text) as BatchDetails;
  const hasEnded = lines !== null && hasBatchEnded(lines.state);
  const status = statusOf(lines, createdAt);
  const { total = 0, succeeded = 0 } = lines ?? {};
  const failed = lines ? (hasEnded ? total - succeeded : lines.failed) : 0;
  const endedAt = seconds(lines?.completedAt ?? null);
  const at = (state: string): number | null => (status === state ? endedAt : null);
  return {
    id: `batch_${id.replaceAll("-", "")}`,
    object: "batch",
    endpoint,
    errors: faults.length > 0 ? { object: "list", data: faults } : null,
    input_file_id: inputFileId,
    completion_window: "24h",
    status,
    output_file_id: hasEnded && succeeded > 0 ? fileId("output", id) : null,
    error_file_id: hasEnded && failed > 0 ? fileId("errors", id) : null,
    created_at: seconds(createdAt),
    in_progress_at: seconds(lines?.uploadedAt ?? null),
    expires_at: seconds(createdAt + WINDOW_MS),
    finalizing_at: hasEnded ? endedAt : null,
    completed_at: at("completed"),
    failed_at: lines ? null : seconds(createdAt),
    expired_at: at("expired"),
    cancelling_at:
      lines && lines.state.startsWith("cancel") ? seconds(lines.completedAt ?? lines.updatedAt) : null,
    cancelled_at: at("cancelled"),
    request_counts: { total, completed: succeeded, failed },
    metadata,
  };
}

function statusOf(lines: LineBatch | null, createdAt: number): string {
  if (!lines) return "failed";
  const { state, completedAt, failed } = lines;
  if (state === "uploading") return "validating";
  if (state === "running") return lines.ended === lines.total ? "finalizing" : "in_progress";
  const isLate = completedAt !== null && completedAt >= createdAt + WINDOW_MS;
  return state === "completed" && isLate && failed > 0 ? "expired" : state;
}

/** A page of a list. */
export function listObject(data: readonly object[], hasMore: boolean): object {
  const idOf = (entry: object | undefined): unknown => (entry && "id" in entry ? entry.id : null);
  return { object: "list", data, first_id: idOf(data[0]), last_id: idOf(data.at(-1)), has_more: hasMore };
}

function seconds(at: number): number;
function seconds(at: number | null): number | null;
function seconds(at: number | null): number | null {
  return at === null ? null : Math.floor(at / 1000);
}

function uuidOf(digits: string): string {
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
