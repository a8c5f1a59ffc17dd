import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { BATCH, type BatchRecord } from "../../../shapes/batches.ts";
import { CliFailure } from "../../failure.ts";
import { answerText, bytes, duration } from "../../output.ts";
import { Progress } from "../../terminal.ts";
import { explain, readJson } from "../explain.ts";
import { type Answer, ConnectionError, textOf } from "../http.ts";
import type { Task } from "../task.ts";

type Order = "input" | "finished";
type Reading = { readonly order: Order; readonly isFollowing: boolean };
type Ended = { lines: number; failures: number };

const MAX_GAP_MS = 5_000;
const MAX_LOSSES = 20;
const LOOK_MS = 1_000;
const NEWLINE = 0x0a;

/** The address of a batch, and what follows it. */
export async function batchUrl({ api }: Task, app: string, id: string, rest = ""): Promise<string> {
  return await api.appUrl(app, `batches/${encodeURIComponent(id)}${rest}`);
}

export async function readBatch(task: Task, app: string, id: string): Promise<BatchRecord> {
  return await task.api.get(BATCH, await batchUrl(task, app, id), { about: { app } });
}

/** Prints the results of a batch exactly as the service sends them; a connection that is lost is resumed where it broke. */
export async function printResults(
  task: Task,
  app: string,
  { id }: Pick<BatchRecord, "id">,
  { order, isFollowing }: Reading,
): Promise<Ended> {
  const { api, signal } = task;
  const url = await batchUrl(task, app, id, "/results");
  const ended = { lines: 0, failures: 0 };
  const query: Record<string, string | number> = { order, wait: String(isFollowing) };
  for (let losses = 0; ;) {
    const before = ended.lines;
    try {
      const answer = await api.open("GET", url, { query });
      if (answer.status !== 200) throw await refusalOf(task, app, answer);
      for await (const line of linesOf(answer)) {
        const { index, status } = JSON.parse(line.toString()) as { index: number; status: string };
        if (!process.stdout.write(printableLine(line))) await once(process.stdout, "drain", { signal });
        ended.lines += 1;
        if (status !== "success") ended.failures += 1;
        query["after"] = order === "input" ? index : ended.lines;
      }
      return ended;
    } catch (error) {
      if (signal.aborted || !isLoss(error)) throw error;
      losses = ended.lines > before ? 1 : losses + 1;
      if (losses > MAX_LOSSES) throw error;
      await sleep(Math.min(100 * 2 ** losses, MAX_GAP_MS), undefined, { signal });
    }
  }
}

/** The service, or a proxy before it, cannot answer now, which may have passed by the next try. */
class Unavailable extends CliFailure {}
const PASSING = new Set([502, 503, 504]);

async function refusalOf({ api }: Task, app: string, answer: Answer): Promise<CliFailure> {
  const { message, detail, exitCode } = explain(answer.status, await textOf(answer), api.site, { app });
  const Failure = PASSING.has(answer.status) ? Unavailable : CliFailure;
  return new Failure(message, detail, exitCode);
}

function isLoss(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof Unavailable) return true;
  return ((error as NodeJS.ErrnoException).code ?? "").startsWith("ECONN");
}

/** The whole lines of an answer, each with its end; empty ones only keep the connection. */
async function* linesOf({ body }: Answer): AsyncGenerator<Buffer> {
  let open: Buffer[] = [];
  for await (const data of body as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = data.indexOf(NEWLINE); end !== -1; end = data.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...open, data.subarray(start, end + 1)]);
      if (line.length > 1) yield line;
      open = [];
      start = end + 1;
    }
    if (start < data.length) open.push(data.subarray(start));
  }
}

/** Anything else than a terminal gets the bytes. */
function printableLine(line: Buffer): Buffer | string {
  return process.stdout.isTTY ? `${answerText(line.subarray(0, -1).toString())}\n` : line;
}

/** Prints all results of a batch while it runs, and its progress to the terminal; fails if a line has failed. */
export async function followBatch(task: Task, app: string, batch: BatchRecord, order: Order): Promise<void> {
  const { out, signal } = task;
  // On one terminal the results themselves show how far the batch is.
  const progress = new Progress(`batch ${batch.id}`, out.isJson || process.stdout.isTTY);
  const watch = process.stderr.isTTY ? setInterval(() => void show(), LOOK_MS) : undefined;
  const show = async (): Promise<void> => {
    const now = await readBatch(task, app, batch.id).catch(() => null);
    if (now) progress.share((now.total - leftOf(now)) / now.total, progressText(now));
  };
  let ended: Ended;
  try {
    ended = await printResults(task, app, batch, { order, isFollowing: true });
  } catch (error) {
    progress.end();
    const again = `millrace map ${app} --resume ${batch.id}`;
    if (!signal.aborted) throw resumable(error, again);
    out.tell(
      `The batch goes on. ${again} prints its results; millrace batches cancel ${app} ${batch.id} ends it.`,
    );
    throw error;
  } finally {
    clearInterval(watch);
    progress.end();
  }
  const { lines, failures } = ended;
  if (failures === 0) return out.note(`batch ${batch.id}: ${linesText(lines)}`);
  throw new CliFailure(`${failures} of ${linesText(lines)} failed`, {
    code: "lines_failed",
    hint: `millrace batches retry ${app} ${batch.id} runs them again`,
    requestId: batch.id,
  });
}

/** The failure of a command that can go on where it was. */
export function resumable(error: unknown, command: string): unknown {
  if (!isLoss(error)) return error;
  const hint = `to continue: ${command}`;
  if (error instanceof Unavailable) return new CliFailure(error.message, { ...error.detail, hint });
  const message = error instanceof CliFailure ? error.message : "the connection was lost too often";
  return new CliFailure(message, { code: "unreachable", hint });
}

function leftOf({ waiting, running }: BatchRecord): number {
  return waiting + running;
}

export function linesText(count: number): string {
  return count === 1 ? "1 line" : `${count.toLocaleString("en")} lines`;
}

/** How far a batch is, in a few words. */
export function progressText(batch: BatchRecord): string {
  const { total, rate, failed, bytes: size, status } = batch;
  const left = leftOf(batch);
  const done = (total - left).toLocaleString("en");
  if (status === "uploading") return `${linesText(total)}, ${bytes(size)}`;
  return [
    `${done} of ${linesText(total)}`,
    ...(failed > 0 ? [`${failed.toLocaleString("en")} failed`] : []),
    ...(rate > 0 && left > 0
      ? [`${rate.toFixed(rate < 10 ? 1 : 0)}/s`, `${duration((left / rate) * 1000)} left`]
      : []),
  ].join(", ");
}

/** Reads the record in an answer to an upload. */
export async function acceptedBatch(task: Task, app: string, answer: Answer): Promise<BatchRecord> {
  if (answer.status !== 202) throw await refusalOf(task, app, answer);
  return readJson(BATCH, await textOf(answer), task.api.site.baseUrl);
}
