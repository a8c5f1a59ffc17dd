import { rmSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import type { AppLogLine, LiveApp } from "../../src/apps/catalog.ts";
import { testSettings } from "./test-settings.ts";
import type { Settings } from "../../src/config/setting-keys.ts";
import { artifactFolder } from "../../src/host/data-folders.ts";
import type { Clock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { type Service, type ServiceOptions, startService } from "../../src/main.ts";
import { prepareDatabase } from "./blank-schema.ts";
import { cheapHash } from "./cheap-hashes.ts";
import { HandClock } from "./clocks.ts";
import { Tail, explains } from "./explain.ts";
import { assertNothingLeft } from "./leak-check.ts";

/** An app as a test writes it: the text of main.py, of millrace.toml, and of further files. */
export type TestApp = {
  readonly main: string;
  readonly toml?: string;
  readonly files?: Record<string, string>;
};

/** What a call answered. */
export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON. */
  // oxlint-disable-next-line no-explicit-any
  readonly json: any;
};

export type CallOptions = {
  readonly functionName?: string;
  readonly headers?: Record<string, string>;
  readonly method?: string;
  /** After the function, with its slash or question mark. */
  readonly suffix?: string;
  readonly token?: string | null;
  readonly signal?: AbortSignal;
};

/** What a test may change in the service it starts. */
export type TestServiceOptions = Pick<
  ServiceOptions,
  "webDir" | "guideDir" | "clock" | "aroundStore" | "engine" | "others" | "seats" | "gpus"
>;

/**
 * For tests that follow processes by the ids that these tell themselves, or that talk to an app by files outside its
 * storage: behind walls the ids are others, and the files are not there. What holds behind walls is in `walls/`.
 */
export const WITHOUT_WALLS = { isolation: "none" } as const;

/** A real service of a test's own: any free ports, a new data directory, silent. */
export class TestService {
  readonly service: Service;
  readonly settings: Settings;
  readonly directory: string;
  readonly logs: AppLogLine[];
  readonly apps = new Map<string, LiveApp>();

  constructor(service: Service, settings: Settings, directory: string, logs: AppLogLine[]) {
    this.service = service;
    this.settings = settings;
    this.directory = directory;
    this.logs = logs;
  }

  /** Deploys an app, new or again. */
  async deploy(name: string, app: TestApp): Promise<LiveApp> {
    const live = await this.service.install(
      await writeApp(path.join(this.directory, "sources", name), name, app),
    );
    this.apps.set(name, live);
    return live;
  }

  /** Deploys an app under a name of its own, beside those of other tests; gives that name. */
  async own(app: TestApp): Promise<string> {
    const name = `own-${this.apps.size}`;
    await this.deploy(name, app);
    return name;
  }

  /** The path of an app's function on the gateway. */
  url(app: string, functionName = "run"): string {
    return `${this.service.apiUrl}/v4/${this.service.owner.projectId}/${app}/${functionName}`;
  }

  /** Calls a function; `body` is sent as JSON, or as it is when it is text. */
  async call(app: string, body: unknown = {}, options: CallOptions = {}): Promise<Answer> {
    const {
      functionName,
      headers,
      method = "POST",
      suffix = "",
      token = this.service.owner.token,
      signal,
    } = options;
    const response = await fetch(this.url(app, functionName) + suffix, {
      method,
      headers: {
        "content-type": "application/json",
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(method !== "GET" &&
        method !== "HEAD" && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parse(text) };
  }

  /** Asks for something of a run: its record, or what `action` names. */
  async ofRun(app: string, runId: string, action = "", options: CallOptions = {}): Promise<Answer> {
    const functionName = `runs/${runId}${action === "" ? "" : `/${action}`}`;
    return await this.call(app, "", { method: "GET", ...options, functionName });
  }

  /** The folder that the app's replicas work in; of a version that has been replaced too. */
  bundleDir(app: string | Pick<LiveApp, "version">): string {
    const live = typeof app === "string" ? this.apps.get(app) : app;
    return live ? artifactFolder(live.version.bundle, this.settings.dataDir) : "";
  }

  /** How many of the app's replicas take calls now. */
  ready(app: string): number {
    return this.apps.get(app)?.pool.readyCount ?? 0;
  }
}

/** Starts a service with some apps; it is stopped, and searched for leaks, when the test is over. */
export async function testService(
  apps: Record<string, TestApp> = {},
  flags: Record<string, unknown> = {},
  options: TestServiceOptions = {},
): Promise<TestService> {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
  const logs: AppLogLine[] = [];
  const settings = testSettings({ dataDir: path.join(directory, "data"), apiPort: 0, basePort: 0, ...flags });
  await prepareDatabase(settings);
  const tail = new Tail();
  const service = await startService(settings, {
    ...cheaply(options),
    log: createLog("info", tail),
    onAppLog: (line) => logs.push(line),
  });
  const silence = explains(() => told(tail, logs));
  onTestFinished(async () => {
    silence();
    await stopService(service, options.clock);
    await assertNothingLeft(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  const test = new TestService(service, settings, directory, logs);
  for (const [name, app] of Object.entries(apps)) await test.deploy(name, app);
  return test;
}

/** The same with passwords that are cheap to hash. */
export function cheaply(
  options: TestServiceOptions,
): TestServiceOptions & Pick<ServiceOptions, "hashPassword"> {
  return { ...options, hashPassword: cheapHash };
}

/** An orderly stop; by a clock that stands still, time passes meanwhile. Every request was answered, or its caller had gone. */
export async function stopService(service: Service, clock: Clock | undefined): Promise<void> {
  const stopping = service.stop();
  await (clock instanceof HandClock ? clock.passDuring(stopping) : stopping);
  const count = service.unanswered();
  if (count > 0) throw new Error(`${count} requests were never answered`);
}

/** What a service and its apps have said, for whoever reads a failure. */
export function told(tail: Tail, lines: readonly AppLogLine[]): string {
  const printed = lines.slice(-40).map(({ appName, stream, text }) => `${appName} ${stream}: ${text}`);
  return [`the service's log:\n${tail.text}`, ...printed].join("\n");
}

/** Writes an app's folder. */
export async function writeApp(
  folder: string,
  name: string,
  { main, toml = "", files = {} }: TestApp,
): Promise<string> {
  rmSync(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, "main.py"), main);
  const named = toml.includes("[deployment]")
    ? toml.replace("[deployment]", `[deployment]\nname = "${name}"`)
    : `${toml}\n[deployment]\nname = "${name}"\n`;
  await writeFile(path.join(folder, "millrace.toml"), named);
  for (const [file, text] of Object.entries(files)) {
    await mkdir(path.join(folder, path.dirname(file)), { recursive: true });
    await writeFile(path.join(folder, file), text);
  }
  return folder;
}

export const CPUS = availableParallelism();

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
