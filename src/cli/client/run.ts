import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type BundleFile, listBundleFiles } from "../../apps/bundles/list-files.ts";
import { loadAppConfig } from "../../config/app-config.ts";
import { packHeader, paddingOf, paxRecords } from "../../kit/tar/archive.ts";
import { APP_NAME } from "../../model/names.ts";
import { ID } from "../../shapes/common.ts";
import { ACCEPTED_RUN, BASE_IMAGE, FILE_RUN, ONE_RUN, type RunRecord } from "../../shapes/runs.ts";
import { CliFailure, usage } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { printable } from "../output.ts";
import { withProgress } from "../terminal.ts";
import { asAppName, badName } from "./app-folder.ts";
import { readArguments } from "./call-arguments.ts";
import { lastLines } from "./logs.ts";
import { asks, type RemoteFlags, type Switches, type Task, type Texts } from "./task.ts";

type RunFlags = RemoteFlags & Texts<"app" | "data"> & Switches<"detach">;

const LOOK_MS = 500;
const FUNCTION = /^[A-Za-z]\w*$/;

export const COMMANDS: Definitions = {
  run(command) {
    asks(command, run, "millrace run train.py", `millrace run train.py::evaluate --data '{"epochs": 2}'`)
      .argument("<file>", "the Python file, and after :: a function of it")
      .option(
        "--app <app>",
        "the app whose secrets, Python and limits it gets (default: from millrace.toml, or the folder's name)",
      )
      .option("--data <json>", "arguments as a JSON object; @file, or - for stdin")
      .option("--detach", "print the run's id without waiting");
  },
};

async function run(task: Task<RunFlags>, given: string): Promise<void> {
  const { api, flags, out } = task;
  const { folder, fileName, functionName } = readTarget(given);
  const { config, warnings } = loadAppConfig(folder);
  const app = flags.app ?? config.deployment.name ?? asAppName(path.basename(folder));
  if (!APP_NAME.test(app)) throw badName(app, "--app");
  for (const warning of warnings) out.warn(warning);
  const data = flags.data === undefined ? null : await readArguments(flags.data, []);
  const { include, exclude } = config.deployment;
  const files = await listBundleFiles(folder, { include, exclude });
  if (!files.some(({ name }) => name === fileName))
    throw usage(`include and exclude leave out ${fileName}`, "see [deployment] in millrace.toml");
  const { pip } = config.dependencies;
  if (Object.keys(pip).length === 0 && files.some(({ name }) => name === "requirements.txt"))
    out.warn(
      "a file run does not read requirements.txt; list packages in [dependencies.pip] of millrace.toml",
    );
  const place = (await api.appPath(app)).replace("/v2/", "/v3/");
  await api.ask(ID, "POST", `${place}/create-run-app`);
  const imageDigest = await installed(task, place, pip);
  const { body, contentType } = await fileRunForm(files, fileName, functionName, data);
  const { runId } = await api.ask(FILE_RUN, "POST", `${place}/run`, {
    query: { filename: fileName, functionName: functionName ?? undefined, imageDigest },
    body,
    headers: { "content-type": contentType },
    about: { app },
  });
  if (flags.detach) {
    out.show({ app, run_id: runId }, () => `${runId}\n`);
    out.note(`millrace logs ${app} --run ${runId}`);
    return;
  }
  await follow(task, app, runId);
}

function readTarget(given: string): { folder: string; fileName: string; functionName: string | null } {
  const [file = "", functionName = null, ...more] = given.split("::");
  const full = path.resolve(file);
  if (!file.endsWith(".py") || more.length > 0)
    throw usage(`${JSON.stringify(given)} is not a Python file`, "such as train.py or train.py::evaluate");
  if (!existsSync(full)) throw usage(`there is no file ${file}`);
  if (functionName !== null && !FUNCTION.test(functionName))
    throw usage(`${JSON.stringify(functionName)} cannot be the name of a function`);
  return { folder: path.dirname(full), fileName: path.basename(full), functionName };
}

async function installed(
  { api, out, signal }: Task,
  place: string,
  pip: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  if (Object.keys(pip).length === 0) return undefined;
  return await withProgress("installing packages", out.isJson, async () => {
    for (;;) {
      const body = { dependencies: { pip } };
      const { status, digest } = await api.ask(BASE_IMAGE, "POST", `${place}/base-image`, { body });
      if (status === "ready") return digest;
      await sleep(LOOK_MS, undefined, { signal });
    }
  });
}

/** Prints the run's lines as they come, until it ends; interrupted, the run is cancelled. */
async function follow(task: Task<RunFlags>, app: string, runId: string): Promise<void> {
  const { api, out, signal } = task;
  let printed = 0;
  try {
    for (;;) {
      // In this order: once the run has ended, all of its lines can be read.
      const { item } = await api.get(ONE_RUN, await api.appPath(app, `/runs/${runId}`));
      const lines = await lastLines(api, app, { runId });
      for (const { logLine } of lines.slice(printed))
        if (!out.isJson) process.stdout.write(`${printable(logLine)}\n`);
      printed = lines.length;
      if (item.completedAt !== null) return conclude(task, app, item);
      await sleep(LOOK_MS, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    const cancel = await api.appUrl(app, `runs/${runId}/cancel`);
    await api.ask(ACCEPTED_RUN, "POST", cancel, { isParting: true }).catch(() => null);
    throw error;
  }
}

function conclude({ out }: Task<RunFlags>, app: string, run: RunRecord): void {
  if (run.status === "success") {
    out.show(run, () => "");
    out.note(`run ${run.id}`);
    return;
  }
  const why = run.error ? `: ${run.error.message}` : "";
  throw new CliFailure(`the run ended as ${run.status}${why}`, {
    code: run.error?.code ?? run.status,
    requestId: run.id,
    hint: `millrace logs ${app} --run ${run.id}`,
  });
}

/** More is refused by the service. */
const MAX_TAR_BYTES = 64 * 1024 * 1024;

/**
 * Calls a function once the file itself has run, with the data's members as its arguments, and prints what it returns
 * or yields. At the file's end, so that its own lines keep their numbers.
 */
const CALL = `

def _millrace_call():
    import asyncio, inspect, json, sys
    name = sys.argv[1]
    data = json.loads(sys.argv[sys.argv.index("--data") + 1]) if "--data" in sys.argv else {}
    function = globals().get(name)
    if not callable(function) or inspect.isclass(function):
        own = [key for key, value in globals().items() if inspect.isfunction(value) and not key.startswith("_")]
        sys.exit("there is no function %s in this file; it has %s" % (name, ", ".join(own) or "none"))

    def show(value):
        if value is not None:
            print(value if isinstance(value, str) else json.dumps(value, default=str), flush=True)

    async def drain(items):
        async for item in items:
            show(item)

    result = function(**data)
    if inspect.isasyncgen(result):
        asyncio.run(drain(result))
    elif inspect.isawaitable(result):
        show(asyncio.run(result))
    elif hasattr(result, "__next__"):
        for item in result:
            show(item)
    else:
        show(result)

_millrace_call()
`;

/** The form of a file run: the files as a tar, of which one ends with a call of the function, and the data. */
async function fileRunForm(
  files: readonly BundleFile[],
  fileName: string,
  functionName: string | null,
  data: string | null,
): Promise<{ readonly body: Buffer; readonly contentType: string }> {
  const tar = await tarOf(files, fileName, functionName === null ? "" : CALL);
  const form = new FormData();
  if (data !== null) form.set("data", new Blob([data], { type: "application/json" }), "data.json");
  form.set("file", new Blob([tar], { type: "application/x-tar" }), "bundle.tar");
  const encoded = new Response(form);
  const body = Buffer.from(await encoded.arrayBuffer());
  return { body, contentType: encoded.headers.get("content-type") ?? "" };
}

async function tarOf(
  files: readonly BundleFile[],
  fileName: string,
  appended: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const sizeBytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (sizeBytes > MAX_TAR_BYTES) {
    throw usage(
      `the folder has ${Math.ceil(sizeBytes / 2 ** 20)} MiB, and a file run takes at most 64`,
      "leave files out with exclude of [deployment] in millrace.toml, or put them into the storage: millrace files cp",
    );
  }
  const pieces: Buffer[] = [];
  for (const { name, path } of files) {
    const text = await readFile(path);
    const bytes = name === fileName && appended !== "" ? Buffer.concat([text, Buffer.from(appended)]) : text;
    pieces.push(...entryOf(name, bytes));
  }
  return Uint8Array.from(Buffer.concat([...pieces, Buffer.alloc(1024)]));
}

function entryOf(name: string, bytes: Buffer): Buffer[] {
  const sizeBytes = bytes.length;
  const head = { name, kind: "file", mode: 0o644, sizeBytes, modifiedAt: 0, target: "" } as const;
  const padded = (part: Buffer): Buffer[] => [part, Buffer.alloc(paddingOf(part.length))];
  // A name that is too long for the header goes before it.
  const pax = paxRecords(head);
  const paxHead = packHeader({ ...head, name: "pax", kind: "pax", sizeBytes: pax.length });
  return [...(pax.length === 0 ? [] : [paxHead, ...padded(pax)]), packHeader(head), ...padded(bytes)];
}
