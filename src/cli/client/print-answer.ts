import { once } from "node:events";
import { buffer } from "node:stream/consumers";
import { STATUS_CODES } from "../../kit/node-http.ts";
import { compactJson, indentedJson } from "../../model/json-layout.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { answerText, duration, type Output, printable } from "../output.ts";
import type { Api } from "./api.ts";
import { explain, explainCall, explainPath, isOwnRefusal } from "./explain.ts";
import { type Answer, readMessages, textOf } from "./http.ts";

type Printing = { readonly api: Api; readonly out: Output; readonly app: string; readonly answer: Answer };

/** Prints what a run answered, a stream as it comes; throws when the run failed. */
export async function printAnswer(printing: Printing, functionName: string): Promise<void> {
  const { api, out, app, answer } = printing;
  const type = String(answer.headers["content-type"]);
  if (type.startsWith("text/event-stream")) return await printStream(printing);
  const text = await textOf(answer);
  const envelope = readEnvelope(text);
  // With a path after its name, a function answers in a form of its own.
  const isResult = envelope !== null || (functionName.includes("/") && !isOwnRefusal(text));
  if (!isResult && answer.status >= 400) throw explainCall(api.site, { app, functionName }, answer, text);
  if (out.isJson) process.stdout.write(text === "" ? "null\n" : `${text}\n`);
  else if (text !== "") process.stdout.write(`${answerText(plain(envelope?.result ?? text))}\n`);
  if (envelope) out.note(`run ${envelope.runId}, ${duration(envelope.runTimeMs)}`);
  // The function answered, with a status of its own that says it could not.
  if (answer.status >= 400) process.exitCode = EXIT.failure;
}

async function printStream({ api, out, app, answer }: Printing): Promise<void> {
  const runId = String(answer.headers["x-request-id"]);
  let count = 0;
  const lost = (): CliFailure =>
    new CliFailure(`the connection was lost after ${count} messages`, {
      hint: `millrace runs tail ${app} ${runId} --after ${count}`,
      requestId: runId,
    });
  await readWhole(api, answer, lost, async () => {
    for await (const { event, data } of readMessages(answer.body)) {
      if (event === "error") throw explain(500, data, api.site, { app, runId });
      out.line({ ...(event !== null && { event }), data }, answerText(data));
      count += 1;
    }
  });
  out.note(`run ${runId}, ${count} messages`);
}

/** Reads an answer to its end; throws `lost` if the connection broke before. */
async function readWhole(
  { signal }: Api,
  { body }: Answer,
  lost: () => CliFailure,
  read: () => Promise<void>,
): Promise<void> {
  try {
    await read();
  } catch (error) {
    if (error instanceof CliFailure || signal.aborted) throw error;
    throw lost();
  }
  // Without its last chunk the answer is not whole, however quietly it ended.
  if (!body.complete) throw lost();
}

/** A result as a person reads it: text as it is, anything else as JSON on several lines. */
function plain(json: string): string {
  try {
    return json.startsWith('"') ? (JSON.parse(json) as string) : indentedJson(json);
  } catch {
    return json; // A server's answer may be anything.
  }
}

/** Refusals of the service itself are smaller. */
const MAX_REFUSAL_BYTES = 64 * 1024;
/** Types that a terminal can show; without a type it is taken for text. */
const TEXT_TYPE = /^$|^text\/|\b(?:json|xml|javascript|x-ndjson|x-www-form-urlencoded)\b/i;
const LINE_END = 0x0a;

/** Prints what a server answers as it comes; throws when the service refused the request, or the server did. */
export async function printResponse(printing: Printing, path: string): Promise<void> {
  const { api, app, answer } = printing;
  const requestId = String(answer.headers["x-request-id"]);
  const lost = (): CliFailure =>
    new CliFailure("the connection was lost before the response was complete", {
      hint: `millrace runs get ${app} ${requestId} says why`,
      requestId,
    });
  await readWhole(api, answer, lost, async () => await printBody(printing));
  conclude(printing, path);
}

async function printBody({ api, out, app, answer }: Printing): Promise<void> {
  const type = answer.headers["content-type"] ?? "";
  if (mayBeRefusal(answer)) {
    const text = await textOf(answer);
    if (isOwnRefusal(text)) throw explainPath(api.site, app, answer.status, text);
    writeWhole(out, answer, Buffer.from(text));
  } else if (type.startsWith("text/event-stream")) {
    for await (const { event, data } of readMessages(answer.body)) {
      out.line({ ...(event !== null && { event }), data }, answerText(data));
    }
  } else if (out.isJson) {
    writeWhole(out, answer, await buffer(answer.body));
  } else if (process.stdout.isTTY && !TEXT_TYPE.test(type)) {
    answer.body.resume();
    throw new CliFailure(`the response is ${type}, which a terminal cannot show`, {
      hint: "add > FILE to save it",
    });
  } else {
    await printBytes(answer);
  }
}

function mayBeRefusal({ status, headers }: Answer): boolean {
  const isJson = headers["content-type"]?.startsWith("application/json") ?? false;
  return status >= 400 && isJson && Number(headers["content-length"]) <= MAX_REFUSAL_BYTES;
}

/** Prints bytes as they come, at the reader's pace; a terminal gets them as text that cannot steer it. */
async function printBytes({ body }: Answer): Promise<void> {
  const decoder = process.stdout.isTTY ? new TextDecoder() : null;
  let last = LINE_END;
  for await (const piece of body as AsyncIterable<Buffer>) {
    last = piece.at(-1) ?? last;
    const shown = decoder ? printable(decoder.decode(piece, { stream: true })) : piece;
    if (!process.stdout.write(shown)) await once(process.stdout, "drain");
  }
  // Otherwise the prompt follows on the same line.
  if (process.stdout.isTTY && last !== LINE_END) process.stdout.write("\n");
}

function writeWhole(out: Output, { status, headers }: Answer, body: Buffer): void {
  if (!out.isJson) {
    process.stdout.write(process.stdout.isTTY ? printable(body.toString()) : body);
    return;
  }
  const head = JSON.stringify({ run_id: headers["x-request-id"] ?? null, status, headers });
  process.stdout.write(`${head.slice(0, -1)},${bodyMember(headers["content-type"] ?? "", body)}}\n`);
}

/** JSON with every digit, text as text, anything else in base64. */
function bodyMember(type: string, body: Buffer): string {
  const text = body.toString();
  if (/\bjson\b/i.test(type)) {
    try {
      return `"body":${compactJson(text)}`;
    } catch {
      // Its type is wrong.
    }
  }
  if (TEXT_TYPE.test(type)) return `"body":${JSON.stringify(text)}`;
  return `"body_base64":"${body.toString("base64")}"`;
}

function conclude({ out, app, answer: { status, headers } }: Printing, path: string): void {
  const runId = String(headers["x-request-id"]);
  const name = `${status} ${STATUS_CODES[status] ?? ""}`.trimEnd();
  if (status < 400) {
    out.note(`${name}${headers.location === undefined ? "" : ` → ${headers.location}`}, run ${runId}`);
  } else if (out.isJson) {
    process.exitCode = EXIT.failure;
  } else {
    throw new CliFailure(`${path} answered ${name}`, {
      requestId: runId,
      ...(status >= 500 && { hint: `millrace logs ${app} --run ${runId}` }),
    });
  }
}

/** The parts of a run's answer: cut out, they are byte for byte what the function gave. */
const ENVELOPE = /^\{"run_id":"([0-9a-f-]{36})","result":(.*),"run_time_ms":([\d.e+-]+)\}$/s;

/** The parts of a sync answer, the result as its own JSON text; null if it has another form. */
export function readEnvelope(text: string): { runId: string; result: string; runTimeMs: number } | null {
  const [, runId = "", result = "", runTimeMs = ""] = ENVELOPE.exec(text) ?? [];
  return runId === "" ? null : { runId, result, runTimeMs: Number(runTimeMs) };
}
