import { readFileSync } from "node:fs";
import path from "node:path";
import type { TestApp } from "../service.ts";

const ECHO = readFileSync(path.join(import.meta.dirname, "echo.py"), "utf8");

/** What a test may change in a server app. */
export type ServerAppOptions = {
  /** Lines of `[runtime.custom]`. */
  readonly runtime?: string;
  /** Other tables. */
  readonly toml?: string;
};

/** An app that is a server of its own: the one in `echo.py`, or another in Python. */
export function serverApp({ runtime = "", toml = "" }: ServerAppOptions = {}, main = ECHO): TestApp {
  const entrypoint = runtime.includes("entrypoint") ? "" : 'entrypoint = "python main.py --port 8000"';
  return { main, toml: `[runtime.custom]\n${entrypoint}\n${runtime}\n${toml}` };
}
