import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { ConfigError } from "../../../src/config/problems.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { verifies } from "../../verifies.ts";

test("a mail server needs a sender, and no message shows its password", () => {
  const given = (smtpUrl: string, smtpFrom?: string) =>
    problemsOf({ flags: { smtpUrl, ...(smtpFrom !== undefined && { smtpFrom }) }, env: {} });
  expect(given("smtp://u:hunter2@mail.example.com")).toEqual(["smtp_from is required when smtp_url is set"]);
  const bad = given("smtp://u:hunter2@mail.example.com?tls=no", "a@b.example, c@d.example").join("\n");
  expect(bad).toContain("--smtp-url must be an address such as");
  expect(bad).toContain("--smtp-from must be an address such as");
  expect(bad).not.toContain("hunter2");
});

test("internals that are no JSON object are named, with what is wrong", () => {
  const given = (text: string) => problemsOf({ flags: {}, env: { MILLRACE_INTERNALS: text } });
  expect(given("{keepSeats")).toEqual([
    expect.stringMatching(/^MILLRACE_INTERNALS must be a JSON object: \w/),
  ]);
  expect(given("[1]")).toEqual(["MILLRACE_INTERNALS must be a JSON object, got [1]"]);
});

test("a password never appears in a problem, from whichever source it came", () => {
  const address = "mysql://root:hunter2@db/x";
  const dir = mkdtempSync(join(tmpdir(), "millrace-settings-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const config = join(dir, "secret.toml");
  writeFileSync(config, `database_url = "${address}"\nbroken = "hunter2`);
  for (const sources of [
    { flags: { databaseUrl: address }, env: {} },
    { flags: {}, env: { MILLRACE_DATABASE_URL: "root:hunter2" } },
    { flags: {}, env: { MILLRACE_DATABASE_URL: "postgres://root:hunter2" } },
    { flags: {}, env: { MILLRACE_PUBLIC_API_URL: "https://root:hunter2@a.example" } },
    { flags: { config }, env: {} },
  ]) {
    const problems = problemsOf(sources);
    expect(problems).toHaveLength(1);
    expect(problems[0]).not.toContain("hunter2");
  }
});

verifies("start.addresses-differ", "the two listeners may not share a port or a public address", () => {
  expect(problemsOf({ flags: { apiPort: "5000", basePort: "5000" }, env: {} })).toEqual([
    "api_port and base_port must differ, got 5000 for both",
  ]);
  expect(
    problemsOf({
      flags: { publicApiUrl: "https://a.example/", publicBaseUrl: "https://a.example" },
      env: {},
    }),
  ).toEqual(['public_api_url and public_base_url must differ, got "https://a.example" for both']);
  expect(readSettings({ flags: { apiPort: "0", basePort: "0" }, env: {} }).settings.apiPort).toBe(0);
});

verifies("origins.settings", "apps' hosts are a wildcard of one domain", () => {
  const given = (appHosts: string) => problemsOf({ flags: { appHosts }, env: {} });
  for (const good of ["*.localhost", "*.apps.example.com", "*.a-b.example", `*.${"a.".repeat(91)}example`])
    expect(readSettings({ flags: { appHosts: good }, env: {} }).settings.appHosts).toBe(good.slice(2));
  for (const bad of [
    "apps.example.com",
    "*",
    "*.",
    "*.*.example.com",
    "a*.example.com",
    "*.example.com.",
    "*.example..com",
    "*.-a.example",
    "*.127.0.0.1",
    "*.[::1]",
    "*.example.com:443",
    "https://*.example.com",
    "*.exämple.com",
    "*.example.com,*.example.org",
    `*.${"a".repeat(64)}.example`,
    `*.${"a.".repeat(91)}examples`,
  ])
    expect([bad, given(bad)]).toEqual([
      bad,
      [expect.stringContaining("--app-hosts must be a wildcard such as *.apps.example.com, got ") as string],
    ]);
});

verifies("origins.settings", "no address of the service itself is a host of apps", () => {
  const sources = (flags: Record<string, string>) => ({
    flags: { appHosts: "*.Apps.example.com", ...flags },
    env: {},
  });
  const given = (flags: Record<string, string>) => problemsOf(sources(flags));
  const refused = (name: string, host: string) => [
    `${name} must not be one of *.apps.example.com, the hosts that app_hosts gives to apps; got ${host}`,
  ];
  for (const host of ["board.apps.example.com", "BOARD.APPS.EXAMPLE.COM", "a.b.apps.example.com"]) {
    const lower = host.toLowerCase();
    expect(given({ publicBaseUrl: `https://${host}:8443/x` })).toEqual(refused("public_base_url", lower));
    expect(given({ publicApiUrl: `http://${host}` })).toEqual(refused("public_api_url", lower));
    expect(given({ host })).toEqual(refused("host", host));
  }
  expect(given({ publicBaseUrl: "https://board.apps.example.com." })).toHaveLength(1);
  for (const host of [
    "apps.example.com",
    "example.com",
    "apps.example.com.evil.test",
    "boardapps.example.com",
  ])
    readSettings(sources({ publicBaseUrl: `https://${host}`, publicApiUrl: `https://${host}:1`, host }));
});

test("a config file that is missing, a folder, too large, not UTF-8 or not TOML is a problem", () => {
  const dir = mkdtempSync(join(tmpdir(), "millrace-settings-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = (name: string, content: string | Buffer): string => {
    const path = join(dir, name);
    writeFileSync(path, content);
    return path;
  };
  const missing = join(dir, "missing.toml");
  const latin = file("latin.toml", Buffer.from([0x70, 0x3d, 0x22, 0xe9, 0x22]));
  const large = file("large.toml", "#".repeat(65_537));
  const broken = file("broken.toml", "a = ");
  const problem = (config: string): string => problemsOf({ flags: { config }, env: {} }).join();
  expect(problem(missing)).toBe(`${missing} does not exist`);
  expect(problem(dir)).toBe(`${dir} is not a regular file`);
  expect(problem(large)).toBe(`${large} must be at most 65536 bytes, got 65537`);
  expect(problem(latin)).toBe(`${latin} is not UTF-8`);
  expect(problem(broken)).toMatch(/is not valid TOML: .+ \(line 1, column \d+\)$/);
});

function problemsOf(sources: Parameters<typeof readSettings>[0]): readonly string[] {
  try {
    readSettings(sources);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the settings were accepted");
}
