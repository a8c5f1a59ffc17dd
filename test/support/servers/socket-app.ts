import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type { TestApp } from "../service.ts";

const MAIN = readFileSync(path.join(import.meta.dirname, "sockets.cjs"), "utf8");
const WS = createRequire(import.meta.url).resolve("ws");

/** An app whose server speaks WebSockets: the one in `sockets.cjs`. `toml`: tables beside its runtime. */
export function socketApp(toml = ""): TestApp {
  const program = `process.env.WS_PACKAGE = ${JSON.stringify(WS)};\n${MAIN}`;
  const entrypoint = JSON.stringify([process.execPath, "server.cjs"]);
  return {
    main: "",
    files: { "server.cjs": program },
    toml: `[runtime.custom]\nentrypoint = ${entrypoint}\n${toml}`,
  };
}
