import type { Command } from "commander";
import { indentedJson } from "../../model/json-layout.ts";
import { RUN_STATES } from "../../model/run.ts";
import { ACCEPTED_RUN, RUN, RUNS } from "../../shapes/runs.ts";
import type { RunRecord } from "../../shapes/runs.ts";
import { firstOf, readLimit } from "../api/pages.ts";
import { explain } from "../api/explain.ts";
import { textOf } from "../api/http.ts";
import { readJson } from "../api/read-json.ts";
import { usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { duration, relative } from "../output/amounts.ts";
import { calledName } from "../output/called-name.ts";
import { answerText, paintStatus, printable } from "../output/paint.ts";
import { fields, table } from "../output/table.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";
import { tailRun } from "./tail-run.ts";

type ListFlags = RemoteFlags & {
  readonly limit: string;
  readonly status?: string;
  readonly async?: boolean;
};

const RESULT = ',"result":';

/** `millrace runs list|get|tail|cancel` */
export function defineRuns(command: Command): void {
  const list = remote(command.command("list")).description("list runs, newest first");
  list
    .argument("[app]", "the app's name (default: all apps of the project)")
    .option("--limit <count>", "how many to show at most", "20")
    .option("--status <status>", `only those: ${RUN_STATES.join(", ")}`)
    .option("--async", "only async runs");
  examples(list, "millrace runs list", "millrace runs list hello --status failure").action(
    withService(listRuns),
  );

  const get = remote(command.command("get")).description("show a run, and its result once it has ended");
  get.argument("<app>", "the app's name").argument("<run>", "the run's id");
  examples(get, "millrace runs get hello 019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa").action(withService(getRun));

  const tail = remote(command.command("tail")).description(
    "print what a run yields, from the beginning to the end",
  );
  tail
    .argument("<app>", "the app's name")
    .argument("<run>", "the run's id")
    .option("--after <number>", "skip this many messages", "0");
  examples(tail, "millrace runs tail counter 019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa").action(
    withService(tailRun),
  );

  const cancel = remote(command.command("cancel")).description("cancel a queued or running run");
  cancel.argument("<app>", "the app's name").argument("<run>", "the run's id");
  examples(cancel, "millrace runs cancel hello 019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa").action(
    withService(cancelRun),
  );
}

async function listRuns({ api, flags, out }: Task<ListFlags>, app?: string): Promise<void> {
  const { status, async: asyncOnly } = flags;
  if (status !== undefined && !(RUN_STATES as readonly string[]).includes(status)) {
    throw usage(`--status takes one of ${RUN_STATES.join(", ")}, not ${JSON.stringify(status)}`);
  }
  const path = await (app === undefined ? api.path("runs") : api.appPath(app, "/runs"));
  const query = { status, asyncOnly };
  const about = app === undefined ? {} : { app };
  const runs = await firstOf(api, RUNS, path, readLimit(flags.limit), { query, about });
  const appOf = (run: RunRecord): string[] =>
    app === undefined ? [run.modelId.slice(run.projectId.length + 1)] : [];
  out.show(runs, () =>
    table(
      ["RUN", ...(app === undefined ? ["APP"] : []), "CALLED", "STATUS", "CODE", "TOOK", "CREATED", "ERROR"],
      runs.map((run) => [
        run.id,
        ...appOf(run),
        printable(`${calledName(run)}${run.async ? " (async)" : ""}`),
        paintStatus(run.status),
        String(run.statusCode ?? "–"),
        duration(run.runtimeMs),
        relative(run.createdAt),
        printable(run.error?.message.split("\n")[0] ?? ""),
      ]),
    ),
  );
}

async function getRun({ api, out }: Task, app: string, id: string): Promise<void> {
  const answer = await api.open("GET", await api.appUrl(app, `runs/${encodeURIComponent(id)}`));
  const text = await textOf(answer);
  if (answer.status !== 200) throw explain(answer, text, api.site, { app });
  if (out.isJson) {
    process.stdout.write(`${text}\n`);
    return;
  }
  process.stdout.write(describe(readJson(RUN, text, api.site.baseUrl)));
  // Cut out of the text: read and written again, long numbers would lose digits.
  const index = text.indexOf(RESULT);
  if (index !== -1)
    process.stdout.write(`\n${answerText(indentedJson(text.slice(index + RESULT.length, -1)))}\n`);
}

function describe(run: RunRecord): string {
  const code = run.statusCode === null ? "" : `  ${run.statusCode}`;
  return fields([
    ["run", run.id],
    ["called", printable(`${calledName(run)}${run.async ? " (async)" : ""}`)],
    ["status", `${paintStatus(run.status)}${code}`],
    ...(run.error ? [["error", printable(`${run.error.code}: ${run.error.message}`)] as const] : []),
    ["created", `${relative(run.createdAt)}  ${run.createdAt}`],
    ["waited", duration(run.queueTimeMs)],
    ["took", duration(run.runtimeMs)],
    ["container", run.containerId ?? "–"],
    ...(run.webhookEndpoint === null
      ? []
      : [["webhook", `${paintStatus(run.webhookStatus)}  ${printable(run.webhookEndpoint)}`] as const]),
  ]);
}

async function cancelRun({ api, out }: Task, app: string, id: string): Promise<void> {
  const url = await api.appUrl(app, `runs/${encodeURIComponent(id)}/cancel`);
  const answer = await api.ask(ACCEPTED_RUN, "POST", url, { about: { app } });
  out.show(answer, () => `run ${id} is cancelled.\n`);
}
