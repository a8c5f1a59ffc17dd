import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { probeLevels } from "../../../src/host/walls/probes.ts";
import { type Offer, WALL_LEVELS } from "../../../src/host/walls/walls.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import {
  FIRST_USER,
  onlyUpTo,
  outerKeeperOf,
  pythonOffering,
  requireOffered,
} from "../../support/walls/walled.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "settings.isolation.effect",
  "where the host cannot give a level the service does not start, and says what is missing",
  async () => {
    const none: Offer = {
      process: "no filter here",
      landlock: "no Landlock here",
      userns: "no namespaces here",
      uid: "no root here",
    };
    for (const isolation of WALL_LEVELS)
      await expect(testService({}, { isolation, python: pythonOffering(none) })).rejects.toThrow(
        none[isolation] ?? "",
      );
    const some: Offer = { ...none, process: null };
    await expect(testService({}, { isolation: "userns", python: pythonOffering(some) })).rejects.toThrow(
      /no namespaces here.*user namespaces.*or set it to process/,
    );
  },
);

/** A Python that is started in another way, by root. */
function pythonStartedBy(command: string): string {
  const program = path.join(scratchDirectory(), "python3");
  const search = `PATH=${process.env["PATH"]}; export PATH`;
  writeFileSync(program, `#!/bin/sh\n${search}\n${command}\n`, { mode: 0o755 });
  return program;
}

verifies(
  "settings.isolation.effect",
  "nothing is claimed that a process cannot have: without the right to name users, or a whole /proc",
  async (context) => {
    await requireOffered("uid", context);
    const offered = async (command: string) => {
      const offer = await probeLevels({
        python: pythonStartedBy(command),
        dataDir: "/nonexistent",
        reads: [],
        user: FIRST_USER,
      });
      return WALL_LEVELS.filter((level) => offer[level] === null);
    };
    expect(await offered(`exec setpriv --bounding-set=-setfcap python3 "$@"`)).toEqual([
      "process",
      "landlock",
    ]);
    expect(await offered(`exec setpriv --bounding-set=-chown python3 "$@"`)).toEqual([
      "process",
      "landlock",
      "userns",
    ]);
    const masked = `exec unshare -m sh -c 'mount -t tmpfs none /proc/sys/fs && exec python3 "$@"' sh "$@"`;
    expect(await offered(masked)).toEqual(["process", "landlock"]);
  },
);

const NETWORK = `
import socket

def open_socket(family):
    with socket.socket(getattr(socket, family)):
        return True
`;

for (const level of TRIED_LEVELS) {
  verifies("config.network", `on ${level} network = false keeps an app off the network`, async (context) => {
    await requireOffered(level, context);
    const off = "[deployment]\nnetwork = false\n";
    const apps = { on: { main: NETWORK }, off: { main: NETWORK, toml: off } };
    const service = await testService(apps, await onlyUpTo(level));
    for (const family of ["AF_INET", "AF_INET6"]) {
      const open = { functionName: "open_socket" };
      expect((await service.call("on", { family }, open)).json.result).toBe(true);
      const refused = await service.call("off", { family }, open);
      expect([refused.status, refused.json.message]).toEqual([
        500,
        expect.stringContaining("PermissionError"),
      ]);
    }
  });
}

const SEEN = `
with open("/proc/self/status") as lines:
    seccomp = next(line.split()[1] for line in lines if line.startswith("Seccomp:"))
`;
const PRELOADED = `
import sys

def seen():
    return getattr(sys, "customized", None)
`;

for (const level of TRIED_LEVELS) {
  verifies(
    "walls.no-code-outside",
    `on ${level} what an app has Python run at its start runs behind the walls`,
    async (context) => {
      await requireOffered(level, context);
      const files = { "sitecustomize.py": `${SEEN}\nimport sys\nsys.customized = seccomp\n` };
      const service = await testService({ app: { main: PRELOADED, files } }, await onlyUpTo(level));
      expect((await service.call("app", {}, { functionName: "seen" })).json.result).toBeNull();
      const { baseUrl, owner } = service.service;
      const secrets = {
        PYTHONPATH: service.bundleDir("app"),
        LD_PRELOAD: path.join(service.bundleDir("app"), "nothing.so"),
      };
      const patched = await fetch(
        `${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-app/secrets`,
        {
          method: "PATCH",
          headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
          body: JSON.stringify(secrets),
        },
      );
      expect(patched.status).toBe(200);
      for (const replica of service.apps.get("app")!.pool.replicas) replica.kill();
      // 2 is a filter: it ran after that was in force.
      await until(
        "it has started anew",
        async () => String((await service.call("app", {}, { functionName: "seen" })).json.result) === "2",
      );
      const replica = [...service.apps.get("app")!.pool.replicas].find(({ state }) => state === "ready");
      const outer = outerKeeperOf(replica?.pid ?? 0, process.pid);
      expect(readFileSync(`/proc/${outer}/environ`, "utf8")).toBe("");
      expect(readFileSync(`/proc/${outer}/cmdline`, "utf8").split("\0").slice(1, 3)).toEqual(["-I", "-S"]);
    },
  );
}
