import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory, serve } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const PUBLIC = { main: "def run():\n    return 1\n", toml: "[deployment]\ndisable_auth = true\n" };
const PRIVATE = { main: "def run():\n    return 1\n" };

/** The warnings among the lines a service logged. */
function warnings(logged: string): string[] {
  return logged
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as { level: number; msg: string })
    .filter(({ level }) => level === 40)
    .map(({ msg }) => msg);
}

async function warningsOf(dataDir: string, env: Record<string, string>): Promise<string[]> {
  const { command } = await serve(dataDir, env);
  await command.interrupt();
  return warnings(command.stderr);
}

verifies(
  "warning.not-loopback",
  "listening beyond loopback prints one loud warning, unless TLS stands in front",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const beyond = [expect.stringMatching(/^LISTENING BEYOND THIS MACHINE WITHOUT TLS/)];
    expect(await warningsOf(dataDir, { MILLRACE_HOST: "0.0.0.0" })).toEqual(beyond);
    expect(await warningsOf(dataDir, { MILLRACE_HOST: "127.0.0.1" })).toEqual([]);
    const tls = { MILLRACE_HOST: "0.0.0.0", MILLRACE_PUBLIC_API_URL: "https://api.example.com" };
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
    const { command } = await serve(dataDir);
    await command.interrupt();
    expect(warnings(command.stderr)).toEqual([expect.stringMatching(/^APP WITHOUT AUTHENTICATION/)]);
    const line = command.stderr.split("\n").find((text) => text.includes("APP WITHOUT"));
    expect(JSON.parse(line ?? "")).toMatchObject({ appName: "open" });
  },
);
