import { ACCEPTED_RUN } from "../../shapes/runs.ts";
import type { Api } from "../api/api.ts";
import { explain } from "../api/explain.ts";
import { textOf } from "../api/http.ts";
import type { Answer } from "../api/http.ts";
import { readJson } from "../api/read-json.ts";
import type { Progress } from "../output/progress.ts";
import type { Task } from "../task.ts";
import type { CallFlags } from "./call-flags.ts";

/** How long the service is asked to hold one question for a result; then it is asked again. */
const WAIT_SECONDS = 60;

/** Prints the id of a run that was accepted, or with `--wait` gives its answer; null where there is no more to print. */
export async function accepted(
  { api, flags, out }: Task<CallFlags>,
  app: string,
  answer: Answer,
  progress: Progress,
): Promise<Answer | null> {
  const text = await textOf(answer);
  if (answer.status !== 202) throw explain(answer, text, api.site, { app });
  const { run_id: runId } = readJson(ACCEPTED_RUN, text, api.site.baseUrl);
  if (flags.wait) return await waitFor(api, app, runId, progress);
  progress.end();
  out.show({ run_id: runId }, () => `${runId}\n`);
  out.note(`millrace runs get ${app} ${runId}`);
  return null;
}

/** The answer of an async run when there is one; interrupted, the run is cancelled. */
async function waitFor(api: Api, app: string, runId: string, progress: Progress): Promise<Answer> {
  progress.set(`waiting for run ${runId}`);
  try {
    for (;;) {
      const url = await api.appUrl(app, `runs/${runId}/result`);
      const answer = await api.open("GET", url, { headers: { prefer: `wait=${WAIT_SECONDS}` } });
      // An app may answer 202 itself; only the service tells to come again.
      if (answer.status !== 202 || answer.headers["retry-after"] === undefined) return answer;
      answer.body.resume();
    }
  } catch (error) {
    if (api.signal.aborted) await cancelRun(api, app, runId);
    throw error;
  }
}

/** Ends a run that the command started; one that has just ended needs no more. */
async function cancelRun(api: Api, app: string, runId: string): Promise<void> {
  const url = await api.appUrl(app, `runs/${runId}/cancel`);
  const answer = await api.open("POST", url, { isParting: true });
  answer.body.resume();
  process.stderr.write(`cancelled run ${runId}\n`);
}
