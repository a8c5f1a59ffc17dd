import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import path from "node:path";
import type { BundleFile } from "../../apps/bundles/list-files.ts";
import { APPS } from "../../shapes/apps.ts";
import { DRY_RUN } from "../../shapes/builds.ts";
import { CliFailure, EXIT, usage } from "../failure.ts";
import { type Definitions } from "../options.ts";
import { bytes, duration, paint, printable } from "../output.ts";
import { shellWord, siteOptions } from "../program-name.ts";
import { canAsk, confirm, withProgress } from "../terminal.ts";
import { bundleFilesOf, readAppFolder } from "./app-folder.ts";
import { afterFailure, followBuild } from "./builds.ts";
import { callHints, sampleCall } from "./sample-call.ts";
import type { Site } from "./site.ts";
import { asks, type RemoteFlags, type Switches, type Task, type Texts } from "./task.ts";
import { cancelBuild, uploadApp, withBundle } from "./upload-app.ts";

type DeployFlags = RemoteFlags & Texts<"name"> & Switches<"detach" | "yes" | "disableSyntaxCheck" | "dryRun">;

export const COMMANDS: Definitions = {
  deploy(command) {
    asks(
      command,
      deploy,
      "millrace deploy hello",
      "millrace deploy hello --dry-run",
      "millrace deploy --name hello-staging --detach",
    )
      .argument("[folder]", "the app's folder (default: the current one)")
      .option("--name <name>", "the app's name (default: from millrace.toml, or the folder's name)")
      .option("--dry-run", "check everything and say what would happen; build and change nothing")
      .option("--disable-syntax-check", "build even if a Python file does not parse")
      .option("--detach", "print the build's id without waiting")
      .option("--yes", "create a new app without asking");
  },
};

async function deploy(task: Task<DeployFlags>, given?: string): Promise<void> {
  const { api, flags, out } = task;
  const startedAt = Date.now();
  const app = readAppFolder(given, flags.name);
  const files = await bundleFilesOf(app);
  for (const warning of app.warnings) out.warn(warning);
  if (flags.dryRun) {
    if (flags.detach) throw usage("--dry-run builds nothing, so there is no build to detach from");
    await dryRun(task, app.name, files, flags.disableSyntaxCheck ?? false);
    return;
  }
  await askForNew(task, app.name);
  const sizeBytes = files.reduce((sum, file) => sum + file.bytes, 0);
  out.note(`${app.name}: ${files.length === 1 ? "1 file" : `${files.length} files`}, ${bytes(sizeBytes)}`);
  const { buildId, endpoint } = await withProgress("packing", out.isJson, async (progress) => {
    const onBytes = (done: number, of: number): void => progress.bar(done, of);
    return await uploadApp(api, app.name, files, flags.disableSyntaxCheck ?? false, onBytes);
  });
  if (flags.detach) {
    // Otherwise the build's log says so.
    if (app.takenFor !== null) out.note(app.takenFor);
    out.show({ app: app.name, build_id: buildId, status: "pending", endpoint }, () => `${buildId}\n`);
    out.note(`millrace builds logs ${app.name} ${buildId} --follow`);
    return;
  }
  const status = await follow(task, app.name, buildId);
  if (status !== "success") throw await failed(task, app.name, buildId, status);
  const sample = app.serverPath === null && !out.isJson ? await sampleCall(api, app.name) : null;
  const token = shellToken(api.site);
  const { url, commands } = callHints({ ...app, endpoint, sample, token, options: siteOptions(flags) });
  out.show({ app: app.name, build_id: buildId, status, endpoint }, () =>
    [
      "",
      `${paint("green", "✓")} ${app.name} is deployed, after ${duration(Date.now() - startedAt)}.`,
      `  ${url}`,
      "",
      ...commands.map((command) => `  ${command}`),
      "",
    ].join("\n"),
  );
}

/** The token as a shell finds it. It is shown itself only at a terminal, and only if nothing else holds it. */
function shellToken({ token, tokenSource, tokenFile }: Site): string {
  if (tokenSource === "MILLRACE_TOKEN") return "$MILLRACE_TOKEN";
  if (tokenFile !== undefined) return `$(cat ${shellWord(shortPath(tokenFile))})`;
  return process.stdout.isTTY ? (token ?? "") : "$MILLRACE_TOKEN";
}

function shortPath(file: string): string {
  const relative = path.relative(process.cwd(), file);
  return relative.startsWith("..") ? file : relative;
}

/** Asks at a terminal before it creates a new app: the name or project may be a typo. */
async function askForNew({ api, flags, signal, out }: Task<DeployFlags>, name: string): Promise<void> {
  if (flags.yes || out.isJson || !canAsk()) return;
  const project = await api.project();
  const apps = await api.get(APPS, await api.path("apps"));
  if (apps.some(({ id }) => id === `${project}-${name}`)) return;
  await confirm(`Create a new app ${name} in ${project} on ${api.site.baseUrl}?`, flags, signal);
}

/** Prints the build's log as it comes; interrupted, the build is cancelled. */
async function follow({ api, out }: Task, name: string, buildId: string): Promise<string> {
  try {
    const { status } = await followBuild(api, name, buildId, ({ stage, log }) => {
      if (!out.isJson) process.stdout.write(`${paint("dim", stage.padEnd(8))}${printable(log)}\n`);
    });
    return status;
  } catch (error) {
    if (api.signal.aborted && (await cancelBuild(api, name, buildId))) {
      process.stderr.write(`cancelled build ${buildId}\n`);
    }
    throw error;
  }
}

async function failed({ api }: Task, name: string, buildId: string, status: string): Promise<CliFailure> {
  const { message, isServing } = await afterFailure(api, name, buildId);
  const now = isServing ? "the previous version keeps serving" : "nothing is serving yet";
  return new CliFailure(`the deploy of ${name} ended as ${status}${message === null ? "" : `: ${message}`}`, {
    code: status,
    hint: `${now}. millrace builds logs ${name} ${buildId} shows this log again`,
  });
}

async function dryRun(
  { api, out }: Task,
  name: string,
  files: readonly BundleFile[],
  disableSyntaxCheck: boolean,
): Promise<void> {
  const found = await withBundle(files, async (zip) => {
    const { size } = await stat(zip);
    return await api.ask(DRY_RUN, "POST", await api.path("deploys/dry-run"), {
      query: { name, disableSyntaxCheck },
      body: createReadStream(zip),
      headers: { "content-type": "application/zip", "content-length": String(size) },
    });
  });
  const { isNew, plan, warnings, problems } = found;
  out.show(found, () =>
    printable(
      [
        `A deploy would ${isNew ? `create the app ${name}` : `replace the current version of ${name}`}:`,
        ...plan.map((step) => `  ${step}`),
        ...warnings.map((text) => `${paint("yellow", "warning:")} ${text}`),
        ...problems.map((text) => `${paint("red", "problem:")} ${text}`),
        problems.length === 0 ? "Nothing was changed." : "It would fail. Nothing was changed.",
        "",
      ].join("\n"),
    ),
  );
  if (problems.length > 0) process.exitCode = EXIT.failure;
}
