import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { type Service, type ServiceOptions, startService } from "../../../src/main.ts";
import type { Store } from "../../../src/store/store.ts";
import type { RunRecord } from "../../../src/shapes/runs.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { Tail, explains } from "../../support/explain.ts";
import { type Answer, type CallOptions, type TestApp, TestService, told } from "../../support/service.ts";

export type SiteOptions = Pick<ServiceOptions, "aroundStore" | "clock"> & {
  readonly flags?: Record<string, unknown>;
};

/** A data directory on which services start one after the other, with the same apps. */
export class Site {
  readonly directory = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
  readonly dataDir = path.join(this.directory, "data");
  readonly #apps: Record<string, TestApp>;
  #running: Service | null = null;

  constructor(apps: Record<string, TestApp>) {
    this.#apps = apps;
    onTestFinished(async () => {
      await this.#running?.stop();
      await assertNothingLeft(this.directory);
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  /** Starts a service; an app that stands there already stays as it is. */
  async start({ flags = {}, ...options }: SiteOptions = {}): Promise<TestService> {
    const settings = testSettings({ dataDir: this.dataDir, apiPort: 0, basePort: 0, ...flags });
    const tail = new Tail();
    const log = createLog("info", tail);
    onTestFinished(explains(() => told(tail, [])));
    const service = await startService(settings, { ...options, log });
    this.#running = service;
    const test = new TestService(service, settings, this.directory, []);
    for (const [name, app] of Object.entries(this.#apps)) await test.deploy(name, app);
    return test;
  }
}

/** Accepts a run in the background; gives its id. */
export async function submit(
  on: TestService,
  app: string,
  body: unknown = {},
  options: CallOptions = {},
): Promise<string> {
  const answer = await on.call(app, body, { ...options, ...ASYNC });
  expect([answer.status, answer.text]).toEqual([202, expect.stringContaining("run_id")]);
  return answer.json.run_id;
}

/** Stands in the way of accepting runs while a test wants it to. */
export class AcceptGate {
  /** Comes between the service and its store: calls the given write, or does not. */
  accept: ((write: () => Promise<void>) => Promise<void>) | null = null;
  readonly aroundStore = (store: Store): Store => ({
    ...store,
    runs: {
      ...store.runs,
      accept: async (batch) => {
        const write = () => store.runs.accept(batch);
        await (this.accept ? this.accept(write) : write());
      },
    },
  });
}

/** Looks at a run from outside: `view` is "", "/result", "/input" or "/events". */
export async function look(
  on: TestService,
  app: string,
  id: string,
  view = "",
  headers: Record<string, string> = {},
): Promise<Answer> {
  return await on.call(app, "", { method: "GET", functionName: `runs/${id}${view}`, headers });
}

/** The run's record as it stands. */
export async function recordOf(
  on: TestService,
  app: string,
  id: string,
): Promise<RunRecord & { readonly result?: unknown }> {
  const answer = await look(on, app, id);
  expect(answer.status).toBe(200);
  return answer.json;
}

/** The run's record once it has ended. */
export async function ended(
  on: TestService,
  app: string,
  id: string,
): Promise<RunRecord & { readonly result?: unknown }> {
  await look(on, app, id, "/result", { prefer: "wait=25" });
  const record = await recordOf(on, app, id);
  expect(["success", "failure", "cancelled"]).toContain(record.status);
  return record;
}

export async function cancel(on: TestService, app: string, id: string): Promise<Answer> {
  return await on.call(app, "", { functionName: `runs/${id}/cancel` });
}

/** What the app's runs have written down, in order. */
export function ledger(on: TestService, app: string): string[] {
  const file = bundleFile(on, app, "ledger");
  return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
}

/** Lets every run of the app go that waits for it. */
export function letGo(on: TestService, app: string): void {
  writeFileSync(bundleFile(on, app, "go"), "");
}

/** A file in the app's working directory. */
export function bundleFile(on: TestService, app: string, name: string): string {
  return path.join(on.bundleDir(app), name);
}

/** Runs that write themselves down, wait, fail, die and stream. */
export const MAIN = `
import os
import time

def note(line):
    with open("ledger", "a") as ledger:
        ledger.write(f"{line}\\n")

def run(n=0):
    note(n)
    return n

def hold(n=0):
    note(n)
    while not os.path.exists("go"):
        time.sleep(0.005)
    return n

def hold_one(n):
    note(n)
    while not os.path.exists(f"go{n}"):
        time.sleep(0.005)

def fail(n=0):
    note(n)
    raise ValueError(f"no {n}")

def die(n=0):
    note(n)
    os._exit(3)

def status(code):
    note(code)
    return {"status_code": code}

def count(to):
    note(to)
    for n in range(to):
        yield n

def tick():
    try:
        note("ticking")
        while True:
            yield "tick"
            time.sleep(0.01)
    finally:
        note("closed")
`;

export const ONE = "[scaling]\nmax_replicas = 1\n";
export const ASYNC = { suffix: "?async=true" };
