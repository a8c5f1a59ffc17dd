import { BATCH, BATCHES, type BatchRecord } from "../../../shapes/batches.ts";
import type { Definitions } from "../../options.ts";
import { bytes, fields, paintStatus, printable, relative } from "../../output.ts";
import { firstOf } from "../api.ts";
import { asking, LIMIT_OPTION, type RemoteFlags, type Task } from "../task.ts";
import { ORDER_OPTION } from "./map.ts";
import { batchUrl, printResults, progressText, readBatch } from "./results.ts";

type ListFlags = RemoteFlags & { readonly limit: number };
type ResultFlags = RemoteFlags & { readonly order: "input" | "finished"; readonly wait?: boolean };

export const COMMANDS: Definitions = {
  batches(command) {
    const sample = "hello 019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";
    const batch = ["<batch>", "the batch's id"] as const;
    asking(command, "list <app>", "list an app's batches, newest first", listBatches, "hello").option(
      ...LIMIT_OPTION,
    );
    asking(command, "get <app>", "show how far a batch is", getBatch, sample).argument(...batch);
    asking(command, "results <app>", "print the results of a batch as JSON lines", batchResults, sample)
      .argument(...batch)
      .option(...ORDER_OPTION)
      .option("--wait", "go on until the batch has ended");
    const cancelling = "cancel all lines of a batch that have not ended";
    asking(command, "cancel <app>", cancelling, cancelBatch, sample).argument(...batch);
    const retrying = "run the lines that have failed again, as a new batch";
    asking(command, "retry <app>", retrying, retryBatch, sample).argument(...batch);
  },
};

const QUEUE_NOTES = {
  draining: "is being drained: no further line begins until it is resumed",
  paused: "is paused: no line begins until it is resumed",
};

async function listBatches({ api, flags, out }: Task<ListFlags>, app: string): Promise<void> {
  const url = await api.appUrl(app, "batches");
  out.list(await firstOf(api, BATCHES, url, flags.limit, { about: { app } }), {
    BATCH: ({ id }) => id,
    FUNCTION: ({ functionName }) => functionName,
    STATUS: ({ status }) => paintStatus(status),
    LINES: (batch) => progressText(batch),
    CREATED: ({ createdAt }) => relative(createdAt),
  });
}

async function getBatch(task: Task, app: string, id: string): Promise<void> {
  const batch = await readBatch(task, app, id);
  task.out.show(batch, () => describe(batch));
}

function describe(batch: BatchRecord): string {
  const { webhookEndpoint, retryOf } = batch;
  const time = (at: string | null): string => (at === null ? "–" : `${relative(at)}  ${at}`);
  return fields([
    ["batch", batch.id],
    ["calls", batch.functionName],
    ["status", paintStatus(batch.status)],
    ["lines", progressText(batch)],
    ["waiting", batch.waiting.toLocaleString("en")],
    ["running", batch.running.toLocaleString("en")],
    ["succeeded", batch.succeeded.toLocaleString("en")],
    ["failed", batch.failed.toLocaleString("en")],
    ["cancelled", batch.cancelled.toLocaleString("en")],
    batch.queue === null || batch.queue === "open" ? null : ["queue", QUEUE_NOTES[batch.queue]],
    ["size", bytes(batch.bytes)],
    ["created", time(batch.createdAt)],
    ["uploaded", time(batch.uploadedAt)],
    ["ended", time(batch.completedAt)],
    retryOf === null ? null : ["retry of", retryOf],
    webhookEndpoint === null ? null : ["webhook", printable(webhookEndpoint)],
  ]);
}

async function batchResults(task: Task<ResultFlags>, app: string, id: string): Promise<void> {
  const { order, wait: isFollowing = false } = task.flags;
  await printResults(task, app, { id }, { order, isFollowing });
}

async function cancelBatch(task: Task, app: string, id: string): Promise<void> {
  const url = await batchUrl(task, app, id, "/cancel");
  const batch = await task.api.ask(BATCH, "POST", url, { about: { app } });
  task.out.show(batch, () => `The batch ${id} is ${batch.status}.\n`);
}

async function retryBatch(task: Task, app: string, id: string): Promise<void> {
  const url = await batchUrl(task, app, id, "/retry");
  const batch = await task.api.ask(BATCH, "POST", url, { about: { app } });
  task.out.show(batch, () => `${batch.id}\n`);
  task.out.note(`millrace map ${app} --resume ${batch.id} prints its results`);
}
