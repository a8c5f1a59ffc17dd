import path from "node:path";
import type { AppLogLine } from "../../apps/catalog.ts";
import { type Flood, FloodGate, type FloodLimits } from "../../apps/logs/flood-gate.ts";
import { type Clock, systemClock } from "../../kit/clock.ts";
import { readdir } from "node:fs/promises";
import { loadAppConfig } from "../../config/app-config.ts";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import type { Settings } from "../../config/setting-keys.ts";
import { readSettings } from "../../config/settings.ts";
import { createLog, type Log } from "../../kit/log.ts";
import { type Service, startService } from "../../main.ts";
import type { OperatorFlags } from "../options.ts";
import { printable } from "../output.ts";
import { endWithParent, spreadLastNet, StopSignals } from "./exits.ts";

/** What is copied of each app: as much as a person can read, with room for a burst. */
const LIMITS: FloodLimits = { linesPerSecond: 50, bytesPerSecond: 32 * 1024, burstSeconds: 10 };
const MAX_LINE_CHARS = 2_000;
const SETTLE_MS = 1_000;

/** Copies what apps print to the service's own output, within bounds; one line says how much was left out. */
export function copyAppLines(
  clock: Clock,
  print: (line: AppLogLine) => void,
): { readonly onAppLog: (line: AppLogLine) => void; readonly stop: () => void } {
  const floods = new FloodGate<AppLogLine>(LIMITS);
  const tell = ({ first, lineCount }: Flood<AppLogLine>): void => {
    const lines = lineCount === 1 ? "1 line is" : `${lineCount} lines are`;
    const text = `[millrace] ${lines} omitted here; \`millrace logs\` shows more`;
    print({ ...first, runId: null, text });
  };
  const settling = clock.every(SETTLE_MS, () => {
    for (const flood of floods.settle(clock.monotonic())) tell(flood);
  });
  return {
    onAppLog: (line) => {
      const from = { owner: String(line.appNumber), source: "" };
      const { passes, after } = floods.pass(from, line, line.text.length, clock.monotonic());
      if (after) tell(after);
      if (passes) print({ ...line, text: shorten(line.text) });
    },
    stop: () => {
      settling.cancel();
      for (const flood of floods.end()) tell(flood);
    },
  };
}

function shorten(text: string): string {
  return text.length <= MAX_LINE_CHARS ? text : `${text.slice(0, MAX_LINE_CHARS)} [millrace: cut]`;
}

const EXAMPLES = path.join(PACKAGE_DIR, "examples");

/** How to call each example: sync, async and streaming. `-N` shows a stream as it comes. */
const CALLS = [
  { call: "hello/run", curl: "curl -X POST", body: '{"name": "Ada"}' },
  { call: "spelling/run?async=true", curl: "curl -X POST", body: '{"word": "adress"}' },
  { call: "counter/run", curl: "curl -N -X POST", body: '{"upper_range": 3}' },
];

/** `millrace serve`: the service alone, until a signal ends it. */
export async function serve(flags: OperatorFlags): Promise<void> {
  endWithParent();
  const signals = new StopSignals();
  const { settings, warnings } = readSettings({ flags, env: process.env });
  const log = createLog(settings.logLevel);
  for (const warning of warnings) log.warn(warning);
  const { service, stop } = await begin(settings, log, ({ text, ...where }) => log.info(where, text));
  await signals.end(service, stop);
}

/** `millrace start`: the service with the example apps, and commands to paste. */
export async function start(flags: OperatorFlags): Promise<void> {
  endWithParent();
  const signals = new StopSignals();
  // For use at a terminal: the greeting and what apps print are readable, and webhooks may go to this machine.
  const defaults = { log_level: "warn", webhook_allow: "127.0.0.0/8,::1/128" };
  const { settings, warnings } = readSettings({ flags, env: process.env, defaults });
  for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
  const { service, stop } = await begin(settings, createLog(settings.logLevel), ({ appName, text }) =>
    process.stdout.write(`[${appName}] ${printable(text)}\n`),
  );
  try {
    const entries = await readdir(EXAMPLES, { withFileTypes: true });
    for (const { name } of entries.filter((entry) => entry.isDirectory())) {
      await installExample(service, path.join(EXAMPLES, name)).catch((error: Error) => {
        // The others work without it.
        process.stderr.write(`warning: the example ${name} cannot be deployed here: ${error.message}\n`);
      });
    }
  } catch (error) {
    await service.stop(); // Its listeners would keep the process alive after the message.
    throw error;
  }
  process.stdout.write(greeting(service));
  await signals.end(service, stop, () => void process.stdout.write("\nStopping…\n"));
}

/** Starts the service, with errors caught and the output of apps copied; `stop` ends the copying. */
async function begin(
  settings: Settings,
  log: Log,
  print: (line: AppLogLine) => void,
): Promise<{ readonly service: Service; readonly stop: () => void }> {
  const hold = spreadLastNet(log);
  const { onAppLog, stop } = copyAppLines(systemClock, print);
  const service = await startService(settings, { log, onAppLog });
  hold(service);
  return { service, stop };
}

/** Deploys an example if it needs only Python: a first start does not wait for packages or images. */
async function installExample(service: Service, folder: string): Promise<void> {
  const { config } = loadAppConfig(folder);
  const needsImage = config.customRuntime?.dockerfilePath ?? null;
  if (needsImage === null && Object.keys(config.dependencies.pip).length === 0) await service.install(folder);
}

function greeting({ apiUrl, baseUrl, owner, setupLink }: Service): string {
  const calls = CALLS.map(({ call, curl, body }) =>
    [
      `${curl} '${apiUrl}/v4/${owner.projectId}/${call}'`,
      `-H 'Authorization: Bearer ${owner.token}'`,
      "-H 'Content-Type: application/json'",
      `-d '${body}'`,
    ].join(" \\\n  "),
  );
  return [
    "Millrace is up.",
    `  apps        ${apiUrl}`,
    `  management  ${baseUrl}`,
    `  project     ${owner.projectId}`,
    ...(setupLink === null
      ? [`  dashboard   ${baseUrl}`]
      : [
          "",
          "Nobody can sign in to the dashboard yet. Open this link to create the first account:",
          `  ${setupLink}`,
        ]),
    "",
    "Try it:",
    "",
    calls.join("\n\n"),
    "",
    "The second call is async: it answers at once, and you get its result from …/spelling/runs/<run_id>/result.",
    "",
    "Ctrl-C stops it.",
    "",
  ].join("\n");
}
