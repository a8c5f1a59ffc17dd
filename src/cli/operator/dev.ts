import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hashFolder } from "../../apps/bundles/list-files.ts";
import { readSettings } from "../../config/settings.ts";
import { createLog } from "../../kit/log.ts";
import { type Service, startService } from "../../main.ts";
import { isFinal, type Run } from "../../model/run.ts";
import { type Api, apiOf } from "../client/api.ts";
import { type AppFolder, bundleFilesOf, readAppFolder } from "../client/app-folder.ts";
import { followBuild } from "../client/builds.ts";
import { calledName } from "../client/runs.ts";
import { callHints, sampleCall } from "../client/sample-call.ts";
import { DEV_DATA_DIR } from "../client/site.ts";
import type { Texts } from "../client/task.ts";
import { uploadApp } from "../client/upload-app.ts";
import { interruptible } from "../failure.ts";
import { type Definitions, examples } from "../options.ts";
import { duration, paint, printable, type Style } from "../output.ts";
import { savesBelow } from "./saves.ts";

type DevFlags = Texts<"name" | "apiPort" | "basePort"> & { readonly dataDir: string };

/** The folder of a version's copy: without it a traceback names the file that is being edited. */
const BUNDLE_PATH = /(?<![^\s"'])[^\s"']*\/bundles\/p-[a-z0-9]+\/[a-z0-9-]+\/[0-9a-f-]{36}\//g;

type Reload = { readonly isGood: boolean; readonly lines: readonly string[] };
const UNCHANGED: Reload = { isGood: true, lines: [] };

export const COMMANDS: Definitions = {
  dev(command) {
    command
      .argument("[folder]", "the app's folder (default: the current one)")
      .option("--name <name>", "the app's name (default: from millrace.toml, or the folder's name)")
      .option("--data-dir <folder>", "where this service keeps its data", DEV_DATA_DIR)
      .option("--api-port <port>", "port for apps (default: 4000, or any free port)")
      .option("--base-port <port>", "port for management (default: 4100, or any free port)");
    examples(command, "millrace dev hello").action(
      async (folder: string | undefined, flags: DevFlags) =>
        await interruptible(async (signal) => await dev(folder, flags, signal)),
    );
  },
};

async function dev(given: string | undefined, flags: DevFlags, signal: AbortSignal): Promise<void> {
  // Before anything is started: it may not be a folder.
  const app = readAppFolder(given, flags.name);
  const service = await startDevService(flags);
  try {
    const { owner, apiUrl, baseUrl } = service;
    process.stdout.write(
      [
        `Serving ${app.name} locally, and reloading it on every save in ${given ?? "."}. Ctrl-C stops it.`,
        ...(app.takenFor === null ? [] : [`  taken for   ${app.takenFor}`]),
        `  apps        ${apiUrl}`,
        `  management  ${baseUrl}\n\n`,
      ].join("\n"),
    );
    const api = apiOf({ ...owner, apiUrl, baseUrl }, signal);
    await Promise.all([
      showRuns(service, { projectId: owner.projectId, name: app.name }, signal),
      reloadAtSaves(api, given, flags, app.folder),
    ]);
  } finally {
    if (signal.aborted) process.stdout.write("\nStopping…\n");
    await service.stop();
  }
}

async function startDevService({ dataDir, apiPort, basePort }: DevFlags): Promise<Service> {
  const folder = path.resolve(dataDir);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const ignore = path.join(folder, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
  const start = async (ports: { readonly apiPort: string; readonly basePort: string }): Promise<Service> => {
    const { settings } = readSettings({
      flags: { dataDir: folder, ...ports, host: "127.0.0.1" },
      env: process.env,
      // Ctrl-C is to give the prompt back soon, and webhooks may go to this machine.
      defaults: { log_level: "error", shutdown_grace: "1s", webhook_allow: "127.0.0.0/8,::1/128" },
    });
    return await startService(settings, {
      log: createLog(settings.logLevel),
      onAppLog: ({ text, stream }) => say(stream === "stderr" ? "yellow" : "cyan", "log", text),
    });
  };
  try {
    return await start({ apiPort: apiPort ?? "4000", basePort: basePort ?? "4100" });
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
    if (!isTaken || apiPort !== undefined || basePort !== undefined) throw error;
    return await start({ apiPort: "0", basePort: "0" });
  }
}

async function reloadAtSaves(
  api: Api,
  given: string | undefined,
  flags: DevFlags,
  folder: string,
): Promise<void> {
  let served: string | null = null;
  let tried: string | null = null;
  // Leaving the loop ends the watching, which would keep this process alive.
  for await (const _save of savesBelow(folder, api.signal)) {
    const startedAt = performance.now();
    try {
      const read = readAppFolder(given, flags.name);
      const hash = await hashFolder(read.folder, read.patterns);
      if (hash === tried) continue;
      tried = hash;
      const { isGood, lines } = hash === served ? UNCHANGED : await reload(api, read);
      const took = duration(performance.now() - startedAt);
      if (isGood) say("green", "serves", `${served === null ? "ready" : "saved changes"} after ${took}`);
      else tell(lines, served);
      if (isGood && served === null) process.stdout.write(await howToCall(api, read, flags.dataDir));
      if (isGood) served = hash;
    } catch (error) {
      if (api.signal.aborted) return;
      tried = null;
      tell((error as Error).message.split("\n"), served);
    }
  }
}

/** Deploys the folder as it is now; the previous version serves until this one has started. */
async function reload(api: Api, app: AppFolder): Promise<Reload> {
  for (const warning of app.warnings) say("yellow", "warning", warning);
  const { buildId } = await uploadApp(api, app.name, await bundleFilesOf(app), true);
  const lines: string[] = [];
  const { status } = await followBuild(api, app.name, buildId, ({ stage, stream, log }) => {
    if (stage === "build" && stream === "stdout") say("dim", "build", log);
    // If the app does not start, its own log has shown the lines before.
    if (stream !== "stderr") return;
    if (stage === "check") lines.length = 0;
    lines.push(log);
  });
  return { isGood: status === "success", lines };
}

function tell(lines: readonly string[], served: string | null): void {
  for (const line of lines) say("red", "error", line);
  const now = "nothing is serving yet; fix the file and save it";
  say("dim", "", served === null ? now : "the previous version keeps serving");
}

function sayRun(run: Run): void {
  const { state, statusCode, runMs, isAsync, errorMessage } = run;
  const result = statusCode === null ? state : String(statusCode);
  const what = `${calledName(run)}${isAsync ? " (async)" : ""}  ${duration(runMs)}`;
  const why = errorMessage === null ? "" : `  ${errorMessage.split("\n")[0]}`;
  say(state === "success" ? "green" : "red", result, `${what}${why}`);
}

function say(style: Style, word: string, text: string): void {
  const time = paint("dim", new Date().toTimeString().slice(0, 8));
  const plain = printable(text).replaceAll(BUNDLE_PATH, "");
  process.stdout.write(`${time}  ${paint(style, word.padEnd(8))}${plain}\n`);
}

/** Commands to paste, once the functions are known. The data directory identifies this service among others here. */
async function howToCall(api: Api, app: AppFolder, dataDir: string): Promise<string> {
  const sample = app.serverPath === null ? await sampleCall(api, app.name) : null;
  const endpoint = (await api.appUrl(app.name, "")).slice(0, -1);
  const options = ["--data-dir", dataDir];
  const { commands } = callHints({ ...app, endpoint, sample, token: api.site.token ?? "", options });
  return `\n${commands.map((command) => `  ${command}\n`).join("")}\n`;
}

const LOOK_MS = 200;
const PAGE = 100;
/** How far back an unfinished run is still waited for. */
const REMEMBERED = 1_000;

/** Prints each run of the app that begins from now on, once it has ended. */
async function showRuns(
  { store }: Service,
  app: { readonly projectId: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  const startedAt = Date.now();
  const shown = new Set<string>();
  while (!signal.aborted) {
    const found = await store.apps.find(app);
    const runs = found ? await store.runs.list({ appNumber: found.number, limit: PAGE }) : [];
    for (const run of runs.toReversed()) {
      if (run.createdAt < startedAt || !isFinal(run.state) || shown.has(run.id)) continue;
      shown.add(run.id);
      sayRun(run);
    }
    for (const id of shown) {
      if (shown.size <= REMEMBERED) break;
      shown.delete(id);
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
