import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { AppLogLine } from "../../src/apps/catalog.ts";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { Tail, explains } from "./explain.ts";
import { assertNothingLeft } from "./leak-check.ts";
import { TestService, assertAllAnswered, told } from "./service.ts";
import type { TestApp, TestServiceOptions } from "./service.ts";

/** One service for all tests of a file that leave nothing behind in it; the answer gives it once it is up. */
export function sharedService(
  apps: Record<string, TestApp> = {},
  flags: Record<string, unknown> = {},
  options: TestServiceOptions = {},
): () => TestService {
  let shared: TestService | undefined;
  let silence = (): void => undefined;
  beforeAll(async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
    const logs: AppLogLine[] = [];
    const { settings } = readSettings({
      flags: { dataDir: path.join(directory, "data"), apiPort: 0, basePort: 0, ...flags },
      env: {},
    });
    const tail = new Tail();
    const log = createLog("info", tail);
    const service = await startService(settings, { ...options, log, onAppLog: (line) => logs.push(line) });
    silence = explains(() => told(tail, logs));
    shared = new TestService(service, settings, directory, logs);
    for (const [name, app] of Object.entries(apps)) await shared.deploy(name, app);
  });
  afterAll(async () => {
    silence();
    if (!shared) return;
    await shared.service.stop();
    assertAllAnswered(shared.service);
    await assertNothingLeft(shared.directory);
    await rm(shared.directory, { recursive: true, force: true });
  });
  return () => {
    if (!shared) throw new Error("the service is not up yet");
    return shared;
  };
}
