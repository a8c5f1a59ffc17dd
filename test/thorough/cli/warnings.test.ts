import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../../src/config/settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { scratchDirectory, serve } from "../../support/command-line.ts";
import { Tail } from "../../support/explain.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const PUBLIC = { main: "def run():\n    return 1\n", toml: "[deployment]\ndisable_auth = true\n" };
const PRIVATE = { main: "def run():\n    return 1\n" };

type Line = { readonly level: number; readonly msg: string; readonly appName?: string };

/** The warnings among the lines a service logged. */
function warnings(logged: string): Line[] {
  return logged
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line)
    .filter(({ level }) => level === 40);
}

/** What a service warns of from its start to its end. */
async function warningsOf(dataDir: string, flags: object = {}): Promise<Line[]> {
  const { settings } = readSettings({ flags: { dataDir, apiPort: 0, basePort: 0, ...flags }, env: {} });
  const tail = new Tail();
  const service = await startService(settings, { log: createLog("info", tail) });
  await service.stop();
  return warnings(tail.text);
}

verifies(
  "warning.not-loopback",
  "listening beyond loopback prints one loud warning, unless TLS stands in front",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { command } = await serve(dataDir, { MILLRACE_HOST: "0.0.0.0", MILLRACE_ISOLATION: "auto" });
    await command.interrupt();
    const beyond = { msg: expect.stringMatching(/^REACHABLE FROM OTHER MACHINES WITHOUT TLS/) };
    expect(warnings(command.stderr)).toEqual([expect.objectContaining(beyond)]);
    expect(await warningsOf(dataDir, { host: "127.0.0.1" })).toEqual([]);
    const tls = { host: "0.0.0.0", publicApiUrl: "https://api.example.com" };
    expect(await warningsOf(dataDir, tls)).toEqual([]);
  },
);

verifies(
  "warning.public-app",
  "an app with auth off is warned of at each start, others are not",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const test = await testService({ open: PUBLIC, closed: PRIVATE }, { dataDir });
    await test.service.stop();
    expect(await warningsOf(dataDir)).toEqual([
      expect.objectContaining({ appName: "open", msg: expect.stringMatching(/^APP WITHOUT AUTHENTICATION/) }),
    ]);
  },
);
