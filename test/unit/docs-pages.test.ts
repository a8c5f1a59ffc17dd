import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { parse } from "yaml";
import { readAppConfig } from "../../src/config/app-config.ts";
import { readSettings } from "../../src/config/settings.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const read = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");
const INSTALL = read("docs/install.md");
const { settings } = readSettings({ flags: {}, env: {} });

/** The blocks of a page in a language; a name after the language is that of a file. */
function blocksOf(page: string, language: string): string[] {
  return [...read(page).matchAll(new RegExp(`^\`\`\`${language}(?: \\S+)?\n([^]*?)^\`\`\`$`, "gm"))].map(
    ([, block = ""]) => block,
  );
}

verifies("docs.pages", "every configuration that a page for newcomers shows is read as it stands", () => {
  const pages = ["packages", "models", "scaling", "servers", "gpus", "queues", "schedules", "images"];
  const shown = pages.flatMap((page) => blocksOf(`docs/${page}.md`, "toml").map((text) => ({ page, text })));
  expect(shown.length).toBeGreaterThan(15);
  for (const { page, text } of shown) {
    const { warnings } = readAppConfig({ toml: { text, fileName: "millrace.toml" }, host: { cpuCount: 8 } });
    expect([page, text, warnings]).toEqual([page, text, []]);
  }
});

verifies("packaging.true", "docs/install.md names files, ports and settings that there are", () => {
  const [env = ""] = blocksOf("docs/install.md", "ini");
  const given = Object.fromEntries(
    env
      .trim()
      .split("\n")
      .map((line) => line.split("=") as [string, string]),
  );
  const { settings: made, warnings } = readSettings({ flags: {}, env: given });
  expect(warnings).toEqual([]);
  expect(made.publicApiUrl).toBe("https://api.example.com");
  const [caddy = ""] = blocksOf("docs/install.md", "text");
  for (const port of [settings.apiPort, settings.basePort]) {
    expect(caddy).toContain(`reverse_proxy 127.0.0.1:${port} {`);
    expect(INSTALL).toContain(`-p 127.0.0.1:${port}:${port}`);
  }
  for (const url of [made.publicApiUrl, made.publicBaseUrl]) expect(caddy).toContain(new URL(url ?? "").host);
  const unit = read("packaging/millrace.service");
  expect(INSTALL).toContain("--prefix /usr/local ");
  expect(unit).toContain("ExecStart=/usr/local/bin/millrace serve");
  for (const place of ["/etc/millrace.env", "/var/lib/millrace", "/run/millrace"]) {
    expect(INSTALL).toContain(place);
    expect(unit).toContain(place);
  }
  const named = [...INSTALL.matchAll(/packaging\/[\w./-]+/g)].map(([file]) => file.replace(/\.$/, ""));
  const missing = named.filter(
    (file) => file !== "packaging/.env" && !existsSync(path.join(REPOSITORY, file)),
  );
  expect(missing).toEqual([]);
  for (const list of [".gitignore", ".dockerignore"]) expect(read(list)).toMatch(/^packaging\/\.env$/m);
});

verifies("packaging.true", "the second compose file adds GPUs to the service of the first", () => {
  type Compose = { readonly services: Readonly<Record<string, object>> };
  const [plain, gpu] = ["compose.yaml", "compose.gpu.yaml"].map(
    (file) => parse(read(`packaging/${file}`)) as Compose,
  );
  expect(Object.keys(plain?.services ?? {})).toEqual(
    expect.arrayContaining(Object.keys(gpu?.services ?? {})),
  );
  expect(gpu?.services["millrace"]).toMatchObject({
    deploy: { resources: { reservations: { devices: [{ driver: "nvidia", capabilities: ["gpu"] }] } } },
  });
});

verifies(
  "docs.pages",
  "the pipelines of docs/ci.md are YAML, and run commands that the page explains",
  () => {
    const [github, gitlab] = blocksOf("docs/ci.md", "yaml").map(
      (text) => parse(text) as Record<string, unknown>,
    );
    expect(github).toMatchObject({ jobs: { deploy: { "runs-on": "ubuntu-latest" } } });
    expect(gitlab).toMatchObject({ deploy: { image: "node:24" } });
    const page = read("docs/ci.md");
    const commands = [...page.matchAll(/\.millrace-cli\/bin\/millrace (\w+) (?:app )?(--[\w-]+)?/g)];
    expect(commands.length).toBeGreaterThanOrEqual(5);
    for (const [, command = "", option = ""] of commands)
      expect(page).toMatch(new RegExp(`^millrace ${command} \\S+.*${option}`, "m"));
  },
);
