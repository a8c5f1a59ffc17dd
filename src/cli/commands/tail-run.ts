import { setTimeout as sleep } from "node:timers/promises";
import { errorIn } from "../../shapes/errors.ts";
import { RUN } from "../../shapes/runs.ts";
import type { RunRecord } from "../../shapes/runs.ts";
import { explain } from "../api/explain.ts";
import { ConnectionError, textOf } from "../api/http.ts";
import { readJson } from "../api/read-json.ts";
import { readMessages } from "../api/sse.ts";
import { CliFailure, usage } from "../failure.ts";
import { duration } from "../output/amounts.ts";
import { answerText } from "../output/paint.ts";
import type { RemoteFlags, Task } from "../task.ts";

const MAX_GAP_MS = 5_000;
const MAX_LOSSES = 20;

/** Prints all that a run yields, live or later; a connection that is lost is taken up again where it was. */
export async function tailRun(
  task: Task<RemoteFlags & { readonly after: string }>,
  app: string,
  id: string,
): Promise<void> {
  const { flags, out, signal } = task;
  if (!/^\d{1,15}$/.test(flags.after)) {
    throw usage(`--after takes a number, not ${JSON.stringify(flags.after)}`);
  }
  const position = { after: flags.after };
  for (let losses = 0; ; losses += 1) {
    const end = await readOn(task, app, id, position);
    if (end) {
      if (end.status !== "success") throw failed(end);
      out.note(`run ${id}: ${end.status}, ${duration(end.runtimeMs)}`);
      return;
    }
    if (losses === MAX_LOSSES) throw new CliFailure("the connection was lost too often");
    await sleep(Math.min(100 * 2 ** losses, MAX_GAP_MS), undefined, { signal });
  }
}

/** Prints from that place on; the run's record at its end, null when the connection was lost before. */
async function readOn(
  { api, out }: Task,
  app: string,
  id: string,
  position: { after: string },
): Promise<RunRecord | null> {
  const url = await api.appUrl(app, `runs/${encodeURIComponent(id)}/events`);
  const answer = await api.open("GET", url, { headers: { "last-event-id": position.after } });
  // Everything was read before: only the record is wanted.
  if (answer.status === 204) return await api.get(RUN, await api.appUrl(app, `runs/${id}`));
  if (answer.status !== 200) throw explain(answer, await textOf(answer), api.site, { app });
  try {
    for await (const { id: number, event, data } of readMessages(answer.body)) {
      if (event === "end") return readJson(RUN, data, api.site.baseUrl);
      // The service gives up on this answer; the next one says why, if the reason lasts.
      if (event === "error" && requestOf(data) === answer.headers["x-request-id"]) return null;
      if (event === "truncated") out.warn("some of what the run yielded is not stored");
      else out.line({ id: Number(number), ...(event !== null && { event }), data }, answerText(data));
      position.after = number ?? position.after;
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (api.signal.aborted || !(error instanceof ConnectionError || code.startsWith("ECONN"))) throw error;
  }
  return null;
}

/** The request that an error of the service is about; null for another text. */
function requestOf(data: string): string | null {
  try {
    return errorIn(JSON.parse(data))?.request_id ?? null;
  } catch {
    return null;
  }
}

function failed({ id, status, error }: RunRecord): CliFailure {
  const message = error ? `${error.code}: ${error.message}` : `the run ended as ${status}`;
  return new CliFailure(message, { requestId: id, ...(error && { code: error.code }) });
}
