import { readFileSync } from "node:fs";
import path from "node:path";
import type { TestApp } from "../service.ts";
import { serverApp } from "./server-app.ts";

const MAIN = readFileSync(path.join(import.meta.dirname, "fixed-port.py"), "utf8");

/** A server with its port in the code, as three replicas. */
export function stubborn(port: number, version: number, { second = 0, replicas = 3 } = {}): TestApp {
  const runtime = `entrypoint = ["python", "main.py"]\nport = ${port}`;
  const toml = `[scaling]\nmin_replicas = ${replicas}\nmax_replicas = ${replicas}\nload_balancing_algorithm = "round-robin"\nreplica_concurrency = 4\n`;
  const main = MAIN.replace("CODED = 8000", `CODED = ${port}`)
    .replace("SECOND = 0", `SECOND = ${second}`)
    .replace("VERSION = 0", `VERSION = ${version}`);
  return serverApp({ runtime, toml }, main);
}
