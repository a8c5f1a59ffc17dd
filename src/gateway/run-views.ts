import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AppError } from "../model/errors.ts";
import { headerOf, isServerRun, unpackRequest } from "../model/http-request.ts";
import { isFinal, type RunDetails } from "../model/run.ts";
import { runRecord } from "../shapes/runs.ts";
import { plainValue, streamText } from "../runs/ended-run.ts";
import type { KnownRun } from "../runs/lookup.ts";
import { STREAM_TYPE } from "../runs/response.ts";
import type { SseMode } from "../runs/sse.ts";
import { allChunks, type Transcript } from "../runs/transcript.ts";
import type { Exchange } from "./exchange.ts";

type AppName = { readonly projectId: string; readonly name: string };

const JSON_TYPE = "application/json";
const UNKNOWN_TYPE = "application/octet-stream";
const CANCELLED_STATUS = new AppError("cancelled").status;
const EMPTY = Buffer.alloc(0);
const EMPTY_OBJECT = Buffer.from("{}");

/** Answers with a run's record; a finished one's with its result, a stream's as a list of what it yielded. */
export async function sendRecord(
  exchange: Exchange,
  known: KnownRun,
  details: RunDetails,
  app: AppName,
): Promise<void> {
  const { run, payload, transcript } = known;
  const record = JSON.stringify(runRecord(run, app, details));
  const open = `${record.slice(0, -1)},"result":`;
  if (isFinal(run.state) && payload?.contentType === STREAM_TYPE && (await isWhole(transcript))) {
    exchange.open(200, ["content-type", JSON_TYPE], null);
    await pour(exchange, listText(open, transcript));
    return;
  }
  const value = plainValue(run, payload) ?? Buffer.from("null");
  const body = isFinal(run.state)
    ? Buffer.concat([Buffer.from(open), value, Buffer.from("}")])
    : Buffer.from(record);
  exchange.answer({ status: 200, contentType: JSON_TYPE, body, headers: {}, error: null });
}

/** Answers with a run's arguments, byte for byte. */
export function sendInput(exchange: Exchange, { run }: KnownRun, input: Uint8Array | null): void {
  if (!input) throw new AppError("payload_not_kept");
  let contentType = JSON_TYPE;
  let body = input.length === 0 ? EMPTY_OBJECT : Buffer.from(input.buffer, input.byteOffset, input.length);
  if (isServerRun(run)) {
    const sent = unpackRequest(input);
    contentType = headerOf(sent.head.headers, "content-type") ?? UNKNOWN_TYPE;
    ({ body } = sent);
  }
  exchange.answer({ status: 200, contentType, body, headers: {}, error: null });
}

/** Answers as the run did: its status, its content type and its bytes; `extra` headers go with it. */
export async function sendResult(
  exchange: Exchange,
  { run, payload, transcript, isKept }: KnownRun,
  sse: SseMode,
  extra: Readonly<Record<string, string>> = {},
): Promise<void> {
  const status = run.statusCode ?? CANCELLED_STATUS;
  if (!payload || !isKept) throw new AppError("payload_not_kept");
  const { contentType, result } = payload;
  const body = result ? Buffer.from(result.buffer, result.byteOffset, result.length) : EMPTY;
  if (contentType !== STREAM_TYPE)
    return exchange.answer({ status, contentType, body, headers: extra, error: null });
  if (!(await isWhole(transcript))) throw new AppError("payload_not_kept");
  const headers = ["content-type", STREAM_TYPE, "cache-control", "no-cache", ...Object.entries(extra).flat()];
  exchange.open(status, headers, null);
  await pour(exchange, streamText(transcript, sse, result && body.toString()));
}

/** A transcript whose beginning is gone is not the answer. */
async function isWhole(transcript: Transcript): Promise<boolean> {
  const first = await transcript.read(0);
  return first === null || first[0]?.event === 1;
}

/** Sends it as fast as it is taken; if it fails on the way, the connection ends without a proper end. */
async function pour({ response }: Exchange, pieces: AsyncIterable<Buffer>): Promise<void> {
  await pipeline(Readable.from(pieces, { objectMode: false }), response).catch(() => undefined);
}

/** `open` and then a list of all the chunks, the object closed behind it. */
async function* listText(open: string, transcript: Transcript): AsyncGenerator<Buffer> {
  let text = `${open}[`;
  for await (const chunks of allChunks(transcript)) {
    for (const { event, isText, bytes } of chunks)
      text += `${event === 1 ? "" : ","}${isText ? JSON.stringify(bytes.toString()) : bytes.toString()}`;
    yield Buffer.from(text);
    text = "";
  }
  yield Buffer.from(`${text}]}`);
}
