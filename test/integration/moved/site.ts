import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import type { Settings } from "../../../src/config/setting-keys.ts";
import { createLog } from "../../../src/kit/log.ts";
import { type Service, startService } from "../../../src/main.ts";
import type { TestDatabase } from "../../support/databases.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { prepareDatabase } from "../../support/blank-schema.ts";
import { writeApp } from "../../support/service.ts";
import { writeWheels } from "../builds/wheels.ts";

/** What a package gives and what the script says that it brought: an app that needs both. */
const MAIN = `
import os, shutil, subprocess, polite
def run():
    script = shutil.which("polite")
    return [polite.word, subprocess.run([script], capture_output=True, text=True).stdout.strip()]
`;
const MODULE = 'word = "please"\ndef main():\n    print("thanks")\n';
/** What that app answers where it has all it needs. */
export const POLITE = ["please", "thanks"];

/** A folder for a test's data directories; nothing may be left of what ran there. */
export async function scratch(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-moved-"));
  onTestFinished(async () => {
    await assertNothingLeft(folder);
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

function settingsOf({ dataDir, databaseUrl }: TestDatabase): Settings {
  const flags = { dataDir, apiPort: 0, basePort: 0, ...(databaseUrl !== null && { databaseUrl }) };
  return testSettings(flags);
}

/** Starts a service on a directory for as long as something is done with it. */
export async function during<T>(database: TestDatabase, use: (service: Service) => Promise<T>): Promise<T> {
  const settings = settingsOf(database);
  await prepareDatabase(settings);
  const service = await startService(settings, { log: createLog("silent") });
  try {
    return await use(service);
  } finally {
    await service.stop();
  }
}

/** Deploys an app with a package of its own. */
export async function deployPolite(service: Service, folder: string, name = "polite"): Promise<void> {
  const sources = path.join(folder, "sources", name);
  await writeApp(sources, name, {
    main: MAIN,
    toml: '[dependencies.paths]\npip = "deps.txt"\n',
    files: { "deps.txt": "./polite-1.0-py3-none-any.whl\n" },
  });
  await writeWheels(sources, [{ name: "polite", version: "1.0", module: MODULE, command: "polite" }]);
  await service.install(sources);
}

/** What a call of an app's function answers: its result, or status and message. */
export async function answer({ apiUrl, owner }: Service, app = "polite"): Promise<unknown> {
  const response = await fetch(`${apiUrl}/v4/${owner.projectId}/${app}/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${owner.token}` },
  });
  const { result, message } = (await response.json()) as { result?: unknown; message?: string };
  return response.status === 200 ? result : `${response.status} ${message}`;
}
