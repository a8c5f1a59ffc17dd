import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { AppLogLine } from "../../src/apps/catalog.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { Tail, explains } from "./explain.ts";
import { assertNothingLeft } from "./leak-check.ts";
import { prepareDatabase } from "./blank-schema.ts";
import { cheaply, stopService, type TestApp, TestService, type TestServiceOptions, told } from "./service.ts";
import { testSettings } from "./test-settings.ts";

type Flags = Record<string, unknown>;

/**
 * One service for all tests of a file that leave nothing behind in it; the answer gives it once it is up. To start
 * one takes more of a processor than most tests do: where a test wants an app alone, `own` gives it one.
 */
export function sharedService(
  apps: Record<string, TestApp> = {},
  flags: Flags | (() => Promise<Flags>) = {},
  options: TestServiceOptions = {},
): () => TestService {
  let shared: TestService | undefined;
  let silence = (): void => undefined;
  beforeAll(async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
    const logs: AppLogLine[] = [];
    const given = typeof flags === "function" ? await flags() : flags;
    const settings = testSettings({
      dataDir: path.join(directory, "data"),
      apiPort: 0,
      basePort: 0,
      ...given,
    });
    await prepareDatabase(settings);
    const tail = new Tail();
    const log = createLog("info", tail);
    const onAppLog = (line: AppLogLine): void => void logs.push(line);
    const service = await startService(settings, { ...cheaply(options), log, onAppLog });
    silence = explains(() => told(tail, logs));
    shared = new TestService(service, settings, directory, logs);
    for (const [name, app] of Object.entries(apps)) await shared.deploy(name, app);
  });
  afterAll(async () => {
    silence();
    if (!shared) return;
    await stopService(shared.service, options.clock);
    await assertNothingLeft(shared.directory);
    rmSync(shared.directory, { recursive: true, force: true });
  });
  return () => {
    if (!shared) throw new Error("the service is not up yet");
    return shared;
  };
}
