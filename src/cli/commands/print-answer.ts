import { indentedJson } from "../../model/json-layout.ts";
import type { Api } from "../api/api.ts";
import { explain } from "../api/explain.ts";
import { textOf } from "../api/http.ts";
import type { Answer } from "../api/http.ts";
import { explainCall, isOwnRefusal } from "../api/server-path.ts";
import { readMessages } from "../api/sse.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { duration } from "../output/amounts.ts";
import type { Output } from "../output/output.ts";
import { answerText } from "../output/paint.ts";
import { readEnvelope } from "../output/run-envelope.ts";

export type Printing = {
  readonly api: Api;
  readonly out: Output;
  readonly app: string;
  readonly functionName: string;
};

/** Prints what a run answered, a stream as it comes; throws when the run failed. */
export async function printAnswer(printing: Printing, answer: Answer): Promise<void> {
  if (String(answer.headers["content-type"]).startsWith("text/event-stream")) {
    await printStream(printing, answer);
    return;
  }
  const { api, out, app, functionName } = printing;
  const text = await textOf(answer);
  const envelope = readEnvelope(text);
  // With a path behind its name, a function answers in a form of its own.
  const isResult = envelope !== null || (functionName.includes("/") && !isOwnRefusal(text));
  if (!isResult && answer.status >= 400) throw explainCall(api, { app, functionName }, answer, text);
  if (out.isJson) process.stdout.write(text === "" ? "null\n" : `${text}\n`);
  else if (text !== "") process.stdout.write(`${answerText(plain(envelope?.result ?? text))}\n`);
  if (envelope) out.note(`run ${envelope.runId}, ${duration(envelope.runTimeMs)}`);
  // The function answered, with a status of its own that says it could not.
  if (answer.status >= 400) process.exitCode = EXIT.failure;
}

/** Prints each message when it comes. */
async function printStream({ api, out, app }: Printing, answer: Answer): Promise<void> {
  const runId = String(answer.headers["x-request-id"]);
  let count = 0;
  try {
    for await (const { event, data } of readMessages(answer.body)) {
      if (event === "error") throw explain({ status: 500 }, data, api.site, { app, runId });
      out.line({ ...(event !== null && { event }), data }, answerText(data));
      count += 1;
    }
  } catch (error) {
    if (error instanceof CliFailure || api.signal.aborted) throw error;
    throw lost(app, runId, count);
  }
  // Without its last chunk the answer is not whole, however quietly it ended.
  if (!answer.body.complete) throw lost(app, runId, count);
  out.note(`run ${runId}, ${count} messages`);
}

function lost(app: string, runId: string, count: number): CliFailure {
  return new CliFailure(`the connection was lost after ${count} messages`, {
    hint: `millrace runs tail ${app} ${runId} --after ${count}`,
    requestId: runId,
  });
}

/** A result as a person reads it: text as it is, anything else as JSON on several lines. */
function plain(json: string): string {
  try {
    return json.startsWith('"') ? (JSON.parse(json) as string) : indentedJson(json);
  } catch {
    return json; // A server's answer may be anything.
  }
}
