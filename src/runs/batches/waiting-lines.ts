import { type HttpRequest, isServerRun, packRequest } from "../../model/http-request.ts";
import { makeRun, NOT_BEGUN } from "../../model/run.ts";
import type { LineBatch } from "../../model/line-batch.ts";
import { type Terms, termsOf } from "../../model/terms.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import type { FedLine } from "../../store/batches/batch-lines.ts";
import type { AcceptedRun } from "../../store/runs/accepted-runs.ts";
import type { Store } from "../../store/store.ts";
import type { LargePayloads } from "../large-payloads.ts";
import { readLine } from "./line.ts";
import { linesOf } from "./line-blocks.ts";

type Block = { readonly first: number; readonly lines: readonly Buffer[]; readonly bytes: number };

/** Of all blocks in memory together; one that is larger stays until the next one comes. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The lines of open batches whose turn comes next: of each, the block that it is in. If there are too many, those that have
 * waited longest are read again when they are needed.
 */
export class WaitingLines {
  readonly #store: Pick<Store, "lineBatches">;
  /** By the batch's number, the one that was needed last at the end. */
  readonly #blocks = new Map<number, Block>();
  #bytes = 0;

  constructor(store: Pick<Store, "lineBatches">) {
    this.#store = store;
  }

  /** Forgets the lines of all other batches. */
  keepOnly(batches: readonly Pick<LineBatch, "number">[]): void {
    const numbers = new Set(batches.map(({ number }) => number));
    for (const number of this.#blocks.keys()) if (!numbers.has(number)) this.#forget(number);
  }

  /** Some lines from that index on, at least one; none if they are not stored. */
  async next({ number }: Pick<LineBatch, "number">, line: number, limit: number): Promise<readonly Buffer[]> {
    let block = this.#blocks.get(number);
    if (!block || line < block.first || line >= block.first + block.lines.length) {
      const stored = await this.#store.lineBatches.block({ number, line });
      if (!stored || line >= stored.first + stored.lineCount) return [];
      block = { first: stored.first, lines: linesOf(stored.bytes), bytes: stored.bytes.length };
    }
    this.#keep(number, block);
    return block.lines.slice(line - block.first, line - block.first + limit);
  }

  #keep(number: number, block: Block): void {
    this.#forget(number);
    this.#blocks.set(number, block);
    this.#bytes += block.bytes;
    for (const other of this.#blocks.keys()) {
      if (this.#bytes <= MAX_BYTES || other === number) return;
      this.#forget(other);
    }
  }

  #forget(number: number): void {
    this.#bytes -= this.#blocks.get(number)?.bytes ?? 0;
    this.#blocks.delete(number);
  }
}

/** A line gets its run so long before its delay ends. */
export const LINE_AHEAD_MS = 5_000;

export type Feeding = {
  readonly batch: LineBatch;
  readonly target: RunTarget;
  readonly now: number;
  readonly newId: () => string;
  readonly large: LargePayloads | null;
  /** The lines were delayed, and are not any more. */
  readonly isDue: boolean;
};

/** What becomes of lines whose turn has come: their runs, or the errors of those that cannot be calls. */
export async function fedLines(
  lines: readonly { readonly line: number; readonly bytes: Buffer }[],
  feeding: Feeding,
): Promise<FedLine[]> {
  const { batch, now, isDue } = feeding;
  const fed: FedLine[] = [];
  for (const { line, bytes } of lines) {
    const read = readLine(bytes, batch.wishes, batch.uploadedAt ?? now);
    const { label } = read;
    if ("fault" in read) {
      const { code, message } = read.fault;
      fed.push({ line, label, end: { state: "failure", errorCode: code, errorMessage: message } });
    } else if (batch.state === "cancelling") {
      const end = { state: "cancelled", errorCode: "cancelled", errorMessage: CANCELLED } as const;
      fed.push({ line, label, end });
    } else {
      const terms = read.wishes && termsOf(read.wishes, batch.uploadedAt ?? now);
      const dueAt = terms?.notBefore ?? 0;
      if (!isDue && dueAt > now + LINE_AHEAD_MS) fed.push({ line, label, delayedUntil: dueAt });
      else fed.push({ line, label, accepted: await acceptedRun(read.input, terms, feeding) });
    }
  }
  return fed;
}

const CANCELLED = "The batch was cancelled before the line's turn came.";

/** A queued run: any node may claim it, as any async run. */
async function acceptedRun(given: Buffer, terms: Terms | null, feeding: Feeding): Promise<AcceptedRun> {
  const { batch, target, now, newId, large } = feeding;
  const caller = batch.accountId === null ? null : { accountId: batch.accountId, user: batch.user };
  const { functionName, ip, trace } = batch;
  // Of a server app: the path to which each line is sent.
  const input = isServerRun(batch) ? packRequest(requestTo(functionName), given) : given;
  const origin = { id: newId(), target, functionName, ip, caller, webhook: null, terms, trace };
  const notBefore = terms?.notBefore ?? null;
  const dueAt = notBefore !== null && notBefore > now ? notBefore : null;
  const run = makeRun(origin, { ...NOT_BEGUN, dueAt, isAsync: true, state: "queued", createdAt: now });
  const payload = { result: null, contentType: null, isBare: false, sealedSecret: null };
  if (!large?.isLarge(input)) return { run, payload: { ...payload, input }, owner: null };
  return { run, payload: { ...payload, input: null, inputBlob: await large.put(input) }, owner: null };
}

function requestTo(target: string): HttpRequest {
  return { method: "POST", target, headers: ["host", "localhost", "content-type", "application/json"] };
}
