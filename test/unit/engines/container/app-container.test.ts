import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startAppContainer } from "../../../../src/engines/container/app-container.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { Ports } from "../../../../src/engines/server/ports.ts";
import { Containers, writeImageRecord } from "../../../../src/host/containers/containers.ts";
import { findInterpreter } from "../../../../src/host/interpreter.ts";
import { StorageFolders } from "../../../../src/host/storage/folders.ts";
import { systemClock } from "../../../../src/kit/clock.ts";
import { until } from "../../../support/until.ts";
import { OPEN_NETWORK } from "../../../support/walls/open-network.ts";

/** Plays docker: its only container is a process that sleeps, until it is removed. */
const DOCKER = `#!/bin/sh
case "$1" in
  info) echo '{"ServerVersion":"29.0.0","Runtimes":{}}' ;;
  start) echo $$ > "$HOME/pid"; exec sleep 600 ;;
  inspect) case "$3" in *State.Pid*) cat "$HOME/pid" 2>/dev/null ;; esac ;;
  rm) kill "$(cat "$HOME/pid")" ;;
esac
`;

const WORKLOAD: Workload = {
  version: { id: "v", appNumber: 1, bundleBlob: null, environmentBlob: null, environmentTag: null },
  projectId: "p-one",
  bundle: "bundle",
  environment: "environment",
  python: null,
  variables: {},
  concurrency: 1,
  ignoreExtra: false,
  maxResultBytes: 1,
  maxChunkBytes: 1,
  mayFork: false,
  limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
  network: true,
  unixSockets: false,
  containerRuntime: null,
  gpus: null,
  graceMs: 0,
  server: null,
};

test("the agent that watches a container is replaced when it dies", async () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-container-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const programs = path.join(dataDir, "programs");
  for (const folder of [programs, path.join(dataDir, "environment")]) mkdirSync(folder);
  writeFileSync(path.join(programs, "docker"), DOCKER);
  chmodSync(path.join(programs, "docker"), 0o755);
  await writeImageRecord(path.join(dataDir, "environment"), { id: "i", projectId: "p-one", python: null });
  const env = { PATH: `${programs}:${process.env["PATH"]}`, HOME: dataDir };
  const containers = new Containers({ containerEngine: "docker", dataDir }, env);
  const errors: unknown[] = [];
  const host = {
    python: (await findInterpreter("python3")).path,
    dataDir,
    level: null,
    network: OPEN_NETWORK,
    storage: new StorageFolders(dataDir),
    ports: new Ports(),
    clock: systemClock,
    containers,
  };
  const parts = { program: null, args: [], port: null, input: null, mounts: [], variables: {} };
  const app = await startAppContainer(host, { ...WORKLOAD, network: false }, parts, {
    onLog: () => {},
    onError: (error) => errors.push(error),
  });
  if (!("container" in app)) throw new Error(app.detail);
  await until("it is watched", () => app.watch !== null);
  const first = app.watch?.pid ?? 0;
  process.kill(first, "SIGKILL");
  await until("it is watched again", () => app.watch !== null && app.watch.pid !== first);
  expect(await app.watch?.questions.usage(0)).not.toBeNull();
  app.container.end();
  await app.exited;
  expect([app.top > 0, errors]).toEqual([true, []]);
});
