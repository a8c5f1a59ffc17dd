import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { buildDashboard } from "./build-dashboard.ts";
import { unpackChromium } from "./unpack-chromium.ts";

declare module "vitest" {
  // oxlint-disable-next-line consistent-type-definitions
  interface ProvidedContext {
    /** Whoever connects and names a thing is told where it is, as JSON. */
    readonly makerSocket: string;
  }
}

/** What several test files need and is dear to make: each gives the path of it. */
const MAKERS = { dashboard: buildDashboard, chromium: unpackChromium } as const;
export type MadeThing = keyof typeof MAKERS;

/**
 * Makes each thing once in a run, for whoever asks first: in a fresh clone four workers would ask at the same
 * moment. Vitest calls this before the first test, and what it returns after the last.
 */
export async function setup({ provide }: TestProject): Promise<() => void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-tests-"));
  const making = new Map<string, Promise<string>>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {}); // A test that does not wait for the answer.
    socket.setEncoding("utf8").once("data", (name: MadeThing) => {
      const made = making.get(name) ?? MAKERS[name]();
      making.set(name, made);
      made.then(
        (place) => socket.end(JSON.stringify({ place })),
        (error: unknown) => socket.end(JSON.stringify({ failure: String(error) })),
      );
    });
  });
  server.listen(path.join(folder, "maker"));
  await once(server, "listening");
  provide("makerSocket", path.join(folder, "maker"));
  return () => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  };
}
