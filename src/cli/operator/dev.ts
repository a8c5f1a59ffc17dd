import path from "node:path";
import type { Command } from "commander";
import { hashFolder } from "../../apps/bundles/hash.ts";
import type { Service } from "../../main.ts";
import { apiOf } from "../client/api.ts";
import type { Api } from "../client/api.ts";
import { DEV_DATA_DIR } from "../client/site.ts";
import type { AppFolder } from "../client/app-folder.ts";
import { bundleFilesOf, readAppFolder } from "../client/app-folder.ts";
import { callHints, sampleCall } from "../client/sample-call.ts";
import { uploadApp } from "../client/upload-app.ts";
import { savesBelow } from "./saves.ts";
import { interruptible } from "../failure.ts";
import { examples } from "../options.ts";
import type { Definitions } from "../options.ts";
import { duration, paint, printable } from "../output.ts";
import { calledName } from "../client/runs.ts";
import type { Style } from "../output.ts";
import { followBuild } from "../client/builds.ts";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import type { AppLogLine } from "../../apps/catalog.ts";
import { readSettings } from "../../config/settings.ts";
import { createLog } from "../../kit/log.ts";
import { startService } from "../../main.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { isFinal } from "../../model/run.ts";
import type { Run } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";

type DevFlags = {
  readonly name?: string;
  readonly dataDir: string;
  readonly apiPort?: string;
  readonly basePort?: string;
};

/** Where a version's copy of the folder is: a traceback is to name the file that is being edited. */
const BUNDLE_PATH = /(?<![^\s"'])[^\s"']*\/bundles\/p-[a-z0-9]+\/[a-z0-9-]+\/[0-9a-f-]{36}\//g;

/** What a deploy of a save came to. */
type Reload = { readonly isGood: boolean; readonly lines: readonly string[] };
const UNCHANGED: Reload = { isGood: true, lines: [] };

/** `millrace dev DIR` */
export const COMMANDS: Definitions = { dev: defineDev };

function defineDev(command: Command): void {
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
}

async function dev(given: string | undefined, flags: DevFlags, signal: AbortSignal): Promise<void> {
  // Before anything is started: a folder that is none is a slip.
  const app = readAppFolder(given, flags.name);
  const service = await startDevService({
    dataDir: path.resolve(flags.dataDir),
    apiPort: flags.apiPort ?? null,
    basePort: flags.basePort ?? null,
    onAppLog: ({ text, stream }) => say(stream === "stderr" ? "yellow" : "cyan", "log", text),
  });
  try {
    const { owner, apiUrl, baseUrl } = service;
    process.stdout.write(greeting(service, app.name, given ?? "."));
    await Promise.all([
      showRuns(service, { projectId: owner.projectId, name: app.name }, signal),
      reloadAtSaves(
        apiOf({ ...owner, apiUrl, baseUrl }, signal),
        { given, flags, folder: app.folder },
        signal,
      ),
    ]);
  } finally {
    if (signal.aborted) process.stdout.write("\nStopping…\n");
    await service.stop();
  }
}

async function reloadAtSaves(
  api: Api,
  app: {
    readonly given: string | undefined;
    readonly flags: DevFlags;
    readonly folder: string;
  },
  signal: AbortSignal,
): Promise<void> {
  const saves = savesBelow(app.folder, signal);
  let served: string | null = null;
  let tried: string | null = null;
  while (!(await saves.next()).done) {
    const startedAt = performance.now();
    try {
      const read = readAppFolder(app.given, app.flags.name);
      const hash = await hashFolder(read.folder, read.patterns);
      if (hash === tried) continue;
      tried = hash;
      const { isGood, lines } = hash === served ? UNCHANGED : await reload(api, read);
      const took = duration(performance.now() - startedAt);
      if (isGood) say("green", "serves", `${served === null ? "ready" : "saved changes"} after ${took}`);
      else tell(lines, served);
      if (isGood && served === null) process.stdout.write(await howToCall(api, read, app.flags.dataDir));
      if (isGood) served = hash;
    } catch (error) {
      if (signal.aborted) return;
      tried = null;
      tell((error as Error).message.split("\n"), served);
    }
  }
}

/** Deploys what is in the folder now; the previous version keeps serving until this one has started. */
async function reload(api: Api, app: AppFolder): Promise<Reload> {
  for (const warning of app.warnings) say("yellow", "warning", warning);
  const { buildId } = await uploadApp(api, app.name, await bundleFilesOf(app), true);
  const lines: string[] = [];
  const { status } = await followBuild(api, app.name, buildId, ({ stage, stream, log }) => {
    if (stage === "build" && stream === "stdout") say("dim", "build", log);
    // Of an app that does not start, its own log has told all but the end.
    if (stream !== "stderr") return;
    if (stage === "check") lines.length = 0;
    lines.push(log);
  });
  return { isGood: status === "success", lines };
}

function tell(lines: readonly string[], served: string | null): void {
  for (const line of lines) say("red", "error", line);
  say(
    "dim",
    "",
    served === null
      ? "nothing is serving yet; fix the file and save it"
      : "the previous version keeps serving",
  );
}

async function showRuns(
  { store }: Service,
  app: { readonly projectId: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  for await (const run of endedRuns(store, app, signal)) {
    const { state, statusCode, runMs, isAsync, errorMessage } = run;
    const result = statusCode === null ? state : String(statusCode);
    const what = `${calledName(run)}${isAsync ? " (async)" : ""}  ${duration(runMs)}`;
    const why = errorMessage === null ? "" : `  ${errorMessage.split("\n")[0]}`;
    say(state === "success" ? "green" : "red", result, `${what}${why}`);
  }
}

function say(style: Style, word: string, text: string): void {
  const time = paint("dim", new Date().toTimeString().slice(0, 8));
  const plain = printable(text).replaceAll(BUNDLE_PATH, "");
  process.stdout.write(`${time}  ${paint(style, word.padEnd(8))}${plain}\n`);
}

function greeting({ apiUrl, baseUrl }: Service, name: string, folder: string): string {
  return [
    `Serving ${name} locally, and reloading it on every save in ${folder}. Ctrl-C stops it.`,
    `  apps        ${apiUrl}`,
    `  management  ${baseUrl}`,
    "",
    "",
  ].join("\n");
}

/** Commands to paste, once the app has said what it takes. The data directory tells this service from others here. */
async function howToCall(api: Api, app: AppFolder, dataDir: string): Promise<string> {
  const sample = app.serverPath === null ? await sampleCall(api, app.name) : null;
  const endpoint = (await api.appUrl(app.name, "")).slice(0, -1);
  const { commands } = callHints({
    ...app,
    endpoint,
    sample,
    token: api.site.token ?? "",
    options: ["--data-dir", dataDir],
  });
  return `\n${commands.map((command) => `  ${command}\n`).join("")}\n`;
}

type DevServiceOptions = {
  readonly dataDir: string;
  /** Null takes the usual ones, or any that are free when those are taken. */
  readonly apiPort: string | null;
  readonly basePort: string | null;
  readonly onAppLog: (line: AppLogLine) => void;
};

/** Starts a service of one's own, in this process and on this machine alone. */
async function startDevService(options: DevServiceOptions): Promise<Service> {
  const { dataDir, apiPort, basePort } = options;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const ignore = path.join(dataDir, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
  try {
    return await start(options, { apiPort: apiPort ?? "4000", basePort: basePort ?? "4100" });
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
    if (!isTaken || apiPort !== null || basePort !== null) throw error;
    return await start(options, { apiPort: "0", basePort: "0" });
  }
}

async function start(
  { dataDir, onAppLog }: DevServiceOptions,
  ports: { readonly apiPort: string; readonly basePort: string },
): Promise<Service> {
  const { settings } = readSettings({
    flags: { dataDir, ...ports, host: "127.0.0.1" },
    env: process.env,
    // Whoever presses Ctrl-C wants the prompt back, and may have a webhook on this machine.
    defaults: { log_level: "error", shutdown_grace: "1s", webhook_allow: "127.0.0.0/8,::1/128" },
  });
  return await startService(settings, { log: createLog(settings.logLevel), onAppLog });
}

const LOOK_MS = 200;
const PAGE = 100;
/** How far back an unfinished run is still waited for. */
const REMEMBERED = 1_000;

/** Yields each run of an app when it has ended, those before the start left out; ends at the signal. */
async function* endedRuns(
  store: Store,
  app: { readonly projectId: string; readonly name: string },
  signal: AbortSignal,
): AsyncGenerator<Run> {
  const startedAt = Date.now();
  const shown = new Set<string>();
  while (!signal.aborted) {
    const found = await store.apps.find(app);
    const runs = found ? await store.runs.list({ appNumber: found.number, limit: PAGE }) : [];
    for (const run of runs.toReversed()) {
      if (run.createdAt < startedAt || !isFinal(run.state) || shown.has(run.id)) continue;
      shown.add(run.id);
      yield run;
    }
    for (const id of shown) {
      if (shown.size <= REMEMBERED) break;
      shown.delete(id);
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
