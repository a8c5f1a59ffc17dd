import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { checkJson, MAX_DEPTH } from "../../../kit/json/check-json.ts";
import { LineCutter } from "../../../kit/line-cutter.ts";
import { RUN_ID } from "../../../model/names.ts";
import type { BatchRecord } from "../../../shapes/batches.ts";
import { usage } from "../../failure.ts";
import { collect, type Definitions } from "../../options.ts";
import { bytes } from "../../output.ts";
import { Progress } from "../../terminal.ts";
import { type CallFlags, queueQuery } from "../call-arguments.ts";
import { asks, count, oneOf, type Switches, type Task, type Texts } from "../task.ts";
import { acceptedBatch, followBatch, linesText, readBatch, resumable } from "./results.ts";

type MapFlags = CallFlags & Switches<"lines"> & Texts<"resume"> & { readonly order: "input" | "finished" };

/** More than any app accepts. */
const MAX_LINE_BYTES = 1024 ** 3;
const UPLOAD_KEY = /^map-[0-9a-f]{32}$/;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const SPACE = 0x20;
const NEWLINE = Buffer.from("\n");
const HEAD = Buffer.from('{"input":');
const TAIL = Buffer.from("}\n");
/** The order of results. */
export const ORDER_OPTION = [
  "--order <word>",
  "results as in the input, or as they end: input, finished",
  oneOf("--order", ["input", "finished"]),
  "input",
] as const;

export const COMMANDS: Definitions = {
  map(command) {
    asks(
      command,
      mapInputs,
      "millrace map hello < inputs.jsonl > results.jsonl",
      "millrace map hello --priority low --tag nightly < inputs.jsonl > results.jsonl",
    )
      .argument("<app>", "the app's name")
      .argument("[function]", "the function's name (default: run)")
      .option(...ORDER_OPTION)
      .option("--lines", "stdin has whole lines of a batch, with input, id, priority and so on")
      .option("--resume <id>", "continue what an interrupted command began; it prints the id")
      .option("--async", "print the batch's id once everything is sent, without waiting")
      .option("--priority <word>", "low, normal, high, or seconds of head start")
      .option("--delay <duration>", "begin later; a duration, or a time such as 2027-01-31T08:00:00Z")
      .option("--ttl <duration>", "give up on runs that have not begun within this time")
      .option("--timeout <duration>", "give up on runs that have not ended within this time")
      .option("--max-attempts <number>", "how often each run may begin", count("--max-attempts", 1, 100))
      .option(
        "--concurrency-key <text>",
        "runs with the same key share what the app's [queue] allows for one key",
      )
      .option("--tag <text>", "a label to find the runs by; can be repeated", collect)
      .option("--fairness-key <text>", "wait in the line of this name, instead of that of your account")
      .option("--webhook <url>", "tell this address when the batch has ended");
  },
};

/** Calls a function with each line of stdin, and prints what became of them. */
async function mapInputs(task: Task<MapFlags>, app: string, functionName = "run"): Promise<void> {
  const { flags, out } = task;
  const { resume } = flags;
  const isBatch = resume !== undefined && RUN_ID.test(resume);
  if (resume !== undefined && !isBatch && !UPLOAD_KEY.test(resume))
    throw usage(`--resume takes the id that the interrupted command printed, not ${JSON.stringify(resume)}`);
  const batch = isBatch
    ? await readBatch(task, app, resume)
    : await upload(task, app, functionName, resume ?? `map-${randomBytes(16).toString("hex")}`);
  if (batch.status === "uploading")
    throw usage(
      "not all inputs of this batch have been sent",
      "repeat the command that was interrupted, with the --resume map-… that it printed",
    );
  if (flags.async) return out.show(batch, () => `${batch.id}\n`);
  await followBatch(task, app, batch, flags.order);
}

async function upload(
  task: Task<MapFlags>,
  app: string,
  functionName: string,
  key: string,
): Promise<BatchRecord> {
  const { api, flags, out, signal } = task;
  if (process.stdin.isTTY)
    throw usage("the inputs are read from stdin, which is a terminal", `millrace map ${app} < inputs.jsonl`);
  const url = new URL(await api.appUrl(app, `${encodeURIComponent(functionName)}/batches`));
  for (const [name, value] of queueQuery(flags)) url.searchParams.append(name, value);
  const progress = new Progress("sending", out.isJson);
  const sent = { lines: 0, bytes: 0 };
  const body = Readable.from(
    (async function* () {
      for await (const lines of linesIn(stdinPieces(), flags.lines ?? false, sent)) {
        progress.set(`sent ${linesText(sent.lines)}, ${bytes(sent.bytes)}`);
        yield lines;
      }
    })(),
    { objectMode: false },
  );
  const { fairnessKey } = flags;
  const headers = {
    "content-type": "application/jsonl",
    "idempotency-key": key,
    ...(fairnessKey !== undefined && { "x-millrace-fairness-key": fairnessKey }),
  };
  try {
    const answer = await api.open("POST", url.href, {
      body,
      headers,
      query: { webhookEndpoint: flags.webhook },
    });
    return await acceptedBatch(task, app, answer);
  } catch (error) {
    progress.end();
    const again = `millrace map ${app} ${functionName} --resume ${key}, with the same options and inputs`;
    if (!signal.aborted) throw sent.lines > 0 ? resumable(error, again) : error;
    out.tell(`Nothing runs before everything is sent. To continue: ${again}`);
    throw error;
  } finally {
    progress.end();
    // What may still come there must not keep the process.
    process.stdin.pause();
    (process.stdin as { unref?: () => void }).unref?.();
  }
}

function stdinPieces(): AsyncIterable<Buffer> {
  return process.stdin.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
}

/** The lines of a batch for lines that are inputs; those that are lines of a batch already stay as they are. */
async function* linesIn(
  input: AsyncIterable<Buffer>,
  areWhole: boolean,
  sent: { lines: number; bytes: number },
): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  const cutter = new LineCutter({ maxBytes: MAX_LINE_BYTES }, (line, isPiece) => {
    if (isPiece) throw usage(`line ${sent.lines + 1} of the input is longer than ${bytes(MAX_LINE_BYTES)}`);
    const isMarked = sent.lines === 0 && line.subarray(0, 3).equals(BYTE_ORDER_MARK);
    const text = isMarked ? line.subarray(3) : line;
    if (text.every((byte) => byte <= SPACE && byte !== 0)) return;
    // What is no input is sent as it is: the service says so in its result.
    if (areWhole || checkJson(text, MAX_DEPTH)) parts.push(text, NEWLINE);
    else parts.push(HEAD, text, TAIL);
    sent.lines += 1;
  });
  const taken = (): Buffer => {
    const lines = Buffer.concat(parts);
    sent.bytes += lines.length;
    parts = [];
    return lines;
  };
  for await (const data of input) {
    cutter.push(data);
    cutter.cut();
    if (parts.length > 0) yield taken();
  }
  cutter.end();
  if (parts.length > 0) yield taken();
}
