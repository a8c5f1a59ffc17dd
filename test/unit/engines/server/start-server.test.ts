import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { processEngine } from "../../../../src/engines/local/engine.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { Ports } from "../../../../src/engines/server/ports.ts";
import { findInterpreter } from "../../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../../src/host/storage/folders.ts";
import { systemClock } from "../../../../src/kit/clock.ts";
import { OPEN_NETWORK } from "../../../support/walls/open-network.ts";

test("a server that is killed while its Python is looked for never starts", async () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-server-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  mkdirSync(path.join(dataDir, "bundle"));
  writeFileSync(path.join(dataDir, "bundle", "main.py"), "");
  const python = await findInterpreter("python3");
  const ports = new Ports();
  const taken = Promise.withResolvers<void>();
  const engine = processEngine({
    python: python.path,
    dataDir,
    level: null,
    network: OPEN_NETWORK,
    storage: new StorageFolders(dataDir),
    ports: Object.assign(ports, {
      take: async () => {
        setImmediate(taken.resolve);
        return 21_000;
      },
    }),
    clock: systemClock,
  });
  const workload: Workload = {
    version: {
      id: "v",
      appNumber: 1,
      bundleBlob: null,
      environmentBlob: null,
      environmentTag: null,
    },
    projectId: "p-one",
    bundle: "bundle",
    environment: null,
    python: { version: python.version.split(".").slice(0, 2).join("."), isStrict: true },
    variables: {},
    concurrency: 1,
    ignoreExtra: false,
    maxResultBytes: 1,
    maxChunkBytes: 1,
    mayFork: true,
    limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
    network: true,
    unixSockets: false,
    containerRuntime: null,
    gpus: null,
    graceMs: 1000,
    server: { entrypoint: ["python", "-m", "http.server", "8000"], port: 8000 },
  };
  const server = engine.serve(workload, { onLog: () => {}, onError: () => {} });
  await taken.promise;
  server.kill();
  expect((await server.exited).detail).toBe("stopped before it started");
});
