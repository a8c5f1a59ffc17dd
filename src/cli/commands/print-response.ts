import { once } from "node:events";
import type { Api } from "../api/api.ts";
import { bytesOf, textOf } from "../api/http.ts";
import type { Answer } from "../api/http.ts";
import { explainPath, isOwnRefusal } from "../api/server-path.ts";
import { readMessages } from "../api/sse.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { STATUS_CODES } from "../../kit/node-http.ts";
import { compactJson } from "../../model/json-layout.ts";
import type { Output } from "../output/output.ts";
import { answerText, printable } from "../output/paint.ts";

export type Response = {
  readonly api: Api;
  readonly out: Output;
  readonly app: string;
  readonly path: string;
  readonly answer: Answer;
};

/** More than any refusal of the service itself takes. */
const MAX_REFUSAL_BYTES = 64 * 1024;
/** What a terminal can show; what has no type is taken for text. */
const TEXT_TYPE = /^$|^text\/|\b(?:json|xml|javascript|x-ndjson|x-www-form-urlencoded)\b/i;
const LINE_END = 0x0a;

/** Prints what a server answers as it comes; throws when the service refused the request, or the server did. */
export async function printResponse(response: Response): Promise<void> {
  const { api, answer } = response;
  try {
    await printBody(response);
  } catch (error) {
    if (error instanceof CliFailure || api.signal.aborted) throw error;
    throw lost(response);
  }
  if (!answer.body.complete) throw lost(response);
  conclude(response);
}

async function printBody({ api, out, app, answer }: Response): Promise<void> {
  const type = answer.headers["content-type"] ?? "";
  if (mayBeRefusal(answer)) {
    const text = await textOf(answer);
    if (isOwnRefusal(text)) throw explainPath(api, app, answer, text);
    writeWhole(out, answer, Buffer.from(text));
  } else if (type.startsWith("text/event-stream")) {
    for await (const { event, data } of readMessages(answer.body)) {
      out.line({ ...(event !== null && { event }), data }, answerText(data));
    }
  } else if (out.isJson) {
    writeWhole(out, answer, await bytesOf(answer));
  } else if (process.stdout.isTTY && !TEXT_TYPE.test(type)) {
    answer.body.resume();
    throw new CliFailure(`the response is ${type}, which a terminal cannot show`, {
      hint: "add > FILE to save it",
    });
  } else {
    await pour(answer);
  }
}

function mayBeRefusal({ status, headers }: Answer): boolean {
  const isJson = headers["content-type"]?.startsWith("application/json") ?? false;
  return status >= 400 && isJson && Number(headers["content-length"]) <= MAX_REFUSAL_BYTES;
}

/** Passes bytes on as they come, and no faster than they are taken; a terminal gets them as text that cannot steer it. */
async function pour({ body }: Answer): Promise<void> {
  const decoder = process.stdout.isTTY ? new TextDecoder() : null;
  let last = LINE_END;
  for await (const piece of body as AsyncIterable<Buffer>) {
    last = piece.at(-1) ?? last;
    const shown = decoder ? printable(decoder.decode(piece, { stream: true })) : piece;
    if (!process.stdout.write(shown)) await once(process.stdout, "drain");
  }
  // The prompt would stand behind it.
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
      // It only says so.
    }
  }
  if (TEXT_TYPE.test(type)) return `"body":${JSON.stringify(text)}`;
  return `"body_base64":"${body.toString("base64")}"`;
}

function conclude({ out, app, path, answer: { status, headers } }: Response): void {
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

function lost({ app, answer }: Response): CliFailure {
  const requestId = String(answer.headers["x-request-id"]);
  return new CliFailure("the connection was lost before the response was complete", {
    hint: `millrace runs get ${app} ${requestId} says why`,
    requestId,
  });
}
