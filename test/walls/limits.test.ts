import { readFileSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { storageFolder } from "../../src/host/data-folders.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { FILLER, HEADLESS, HUNGRY, HUNGRY_SERVER, SMALL } from "../support/walls/greedy-apps.ts";
import { CLOSED_LEVELS, MEANS, groupsOf, requireCgroups, withoutCgroups } from "../support/walls/limited.ts";
import { requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const GOOD = "def run(n):\n    return n + 1\n";
for (const means of MEANS) {
  for (const fork of ["auto", "never"]) {
    verifies(
      "walls.limits.memory",
      `by ${means}, with fork = ${fork}, a memory bomb is 502 out_of_memory, and its neighbour notices nothing`,
      async (context) => {
        if (means === "control groups") await requireCgroups("memory", context);
        const toml = `${SMALL}[deployment]\nfork = "${fork}"\n`;
        const apps = { bomb: { main: HUNGRY, toml }, sibling: { main: GOOD } };
        const options = means === "watcher" ? { engine: withoutCgroups } : {};
        const service = await testService(apps, {}, options);
        const state = { isOver: false };
        const bomb = service.call("bomb", {}, { functionName: "eat" }).finally(() => (state.isOver = true));
        for (let calls = 0; !state.isOver || calls < 20; calls++) {
          const answer = await service.call("sibling", { n: calls });
          expect([answer.status, answer.json.result]).toEqual([200, calls + 1]);
        }
        const { status, json } = await bomb;
        expect([status, json.code]).toEqual([502, "out_of_memory"]);
        expect(json.message).toContain("memory = 0.2 GB");
        expect((await service.call("bomb", {}, { functionName: "live" })).json.result).toBe(true);
      },
    );
  }
}

verifies(
  "walls.limits.memory",
  "a watcher counts what a replica started, and memory that forks share only once",
  async () => {
    // Each fork sees the 150 MB of its template: two of them would be far above the limit.
    const main = `held = b"x" * 150_000_000\n${HUNGRY}`;
    const toml = `${SMALL}[scaling]\nmin_replicas = 2\nmax_replicas = 2\n`;
    const service = await testService({ app: { main, toml } }, {}, { engine: withoutCgroups });
    await until("both are up", () => service.ready("app") === 2);
    const before = [...service.apps.get("app")!.pool.replicas].map(({ id }) => id);
    const bomb = await service.call("app", {}, { functionName: "eat_below" });
    expect([bomb.status, bomb.json.code]).toEqual([502, "out_of_memory"]);
    const after = [...service.apps.get("app")!.pool.replicas].map(({ id }) => id);
    expect(after.filter((id) => before.includes(id))).toHaveLength(1);
  },
);

verifies("walls.limits.memory", "a watcher counts a process whose first thread has ended", async () => {
  const main = HUNGRY + HEADLESS;
  const service = await testService({ app: { main, toml: SMALL } }, {}, { engine: withoutCgroups });
  const { status, json } = await service.call("app", {}, { functionName: "eat_headless" });
  expect([status, json.code]).toEqual([502, "out_of_memory"]);
});

/** Four processes with half of the limit each; `forge` has each of them ask for a replica's connection. */
const CROWDED = `
import os
import socket
import time

def crowd(forge):
    for number in range(4):
        if os.fork() == 0:
            if forge:
                door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(3))
                _, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                socket.send_fds(door, [b"millrace 1 wire %032x" % number], [theirs.fileno()])
            else:
                os.setsid()
                if os.fork() > 0:
                    os._exit(0)
            held = b"x" * 100_000_000
            time.sleep(600)
    time.sleep(600)
`;

for (const [forge, which] of [
  [true, "processes that ask for connections of their own"],
  [false, "daemons"],
] as const)
  verifies("walls.limits.memory", `a watcher counts ${which} for the replica that started them`, async () => {
    const service = await testService(
      { app: { main: CROWDED, toml: SMALL } },
      {},
      { engine: withoutCgroups },
    );
    const { status, json } = await service.call("app", { forge }, { functionName: "crowd" });
    expect([status, json.code]).toEqual([502, "out_of_memory"]);
  });

for (const means of MEANS) {
  verifies(
    "walls.limits.memory.start",
    `by ${means}, an app that takes too much at its import says so`,
    async (context) => {
      if (means === "control groups") await requireCgroups("memory", context);
      const main = `${HUNGRY}\neat()\n`;
      const options = means === "watcher" ? { engine: withoutCgroups } : {};
      const service = await testService({ app: { main, toml: SMALL } }, {}, options);
      const answer = await service.call("app", {}, { functionName: "live" });
      expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
      expect(answer.json.message).toContain("it used more than its memory = 0.2 GB");
    },
  );
}

verifies(
  "walls.limits.memory",
  "an app's own server that takes too much is ended, and starts again",
  async () => {
    const service = await testService({ app: serverApp({ toml: SMALL }, HUNGRY_SERVER) });
    const { status, json } = await service.call("app", {}, { functionName: "eat" });
    expect([status, json.code]).toEqual([502, "out_of_memory"]);
    expect((await service.call("app", {}, { functionName: "live" })).status).toBe(200);
  },
);

const CROWD = `
import _thread
import os
import threading

def crowd(most):
    """How many threads there could be, and what a fork says then."""
    threading.stack_size(64 * 1024)
    gate = _thread.allocate_lock()
    gate.acquire()
    made = 0
    def wait():
        with gate:
            pass
    try:
        while made < most:
            _thread.start_new_thread(wait, ())
            made += 1
    except RuntimeError:
        pass
    try:
        if os.fork() == 0:
            os._exit(0)
        told = None
    except OSError as error:
        told = type(error).__name__
    gate.release()
    return [made, told]
`;

verifies(
  "walls.limits.processes",
  "a replica that has 4,096 threads gets neither another one nor a process",
  async (context) => {
    await requireCgroups("processes", context);
    const service = await testService({ app: { main: CROWD } });
    const { json } = await service.call("app", { most: 5_000 }, { functionName: "crowd" });
    expect(json.result[0]).toBeLessThan(4_096);
    expect(json.result[0]).toBeGreaterThan(4_000);
    expect(json.result[1]).toBe("BlockingIOError");
  },
);

const BUSY = `
import time

def burn(wall_seconds):
    """The processor time it got in that window, as a share of it."""
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < wall_seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - began)
`;

verifies("walls.limits.cpu", "cpu = 0.25 gives no more than a quarter of a core", async (context) => {
  await requireCgroups("cpu", context);
  const service = await testService({ slow: { main: BUSY, toml: "[hardware]\ncpu = 0.25\n" } });
  const { json } = await service.call("slow", { wall_seconds: 3 }, { functionName: "burn" });
  process.stderr.write(`\ncpu = 0.25: ${Number(json.result).toFixed(3)} of a core\n`);
  // On a machine that is busy otherwise it gets less; what it got before its first period ended comes on top.
  expect(json.result).toBeLessThan(0.35);
  expect(json.result).toBeGreaterThan(0);
});

verifies(
  "walls.limits.disk",
  "temporary files beyond max_scratch end their app's replica",
  async (context) => {
    await requireOffered("process", context);
    const flags = { isolation: "process", maxScratch: "30MB" };
    const service = await testService({ filler: { main: FILLER }, sibling: { main: GOOD } }, flags);
    const [answer, other] = await Promise.all([
      service.call("filler", { folder: "scratch" }, { functionName: "fill" }),
      service.call("sibling", { n: 1 }),
    ]);
    expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
    expect(answer.json.message).toContain("MILLRACE_MAX_SCRATCH");
    expect(other.json.result).toBe(2);
    const scratch = path.join(service.settings.dataDir, "scratch");
    await until("its files are gone", () => readdirSync(scratch).length === 1);
    expect((await service.call("filler", {}, { functionName: "live" })).json.result).toBe(true);
  },
);

verifies(
  "walls.limits.disk",
  "a project whose storage is over its quota gets no replica until files are removed",
  async () => {
    const service = await testService({ filler: { main: FILLER } }, { maxProjectStorage: "30MB" });
    const fill = { functionName: "fill" };
    const answer = await service.call("filler", { folder: "storage" }, fill);
    expect([answer.status, answer.json.code]).toEqual([502, "app_crashed"]);
    expect(answer.json.message).toContain("MILLRACE_MAX_PROJECT_STORAGE");
    const refused = await service.call("filler", {}, { functionName: "live" });
    expect([refused.status, refused.json.code]).toEqual([503, "app_not_ready"]);
    expect(refused.json.message).toContain("remove some of its files");
    const storage = storageFolder(service.service.owner.projectId, service.settings.dataDir);
    for (const name of readdirSync(storage)) rmSync(path.join(storage, name), { recursive: true });
    await until(
      "it is up again",
      async () => (await service.call("filler", {}, { functionName: "live" })).status === 200,
    );
  },
);

const CLIMBER = `
import os

def climb(folder):
    """What it meets when it tries to leave its group, and to change it."""
    met = []
    for name in ("cgroup.procs", "memory.limit_in_bytes", "memory.max", "../cgroup.procs", "../tasks"):
        path = os.path.join(folder, name)
        try:
            with open(path, "w") as file:
                file.write("0" if name.endswith(("procs", "tasks")) else "-1")
            met.append(path)
        except (PermissionError, FileNotFoundError):
            pass
        except OSError as error:
            if error.errno != 30:
                raise
    try:
        os.mkdir(os.path.join(folder, "mine"))
        met.append("mkdir")
    except OSError:
        pass
    return met
`;

for (const level of CLOSED_LEVELS) {
  verifies(
    "walls.limits.inside",
    `on ${level} an app cannot leave its group or change it`,
    async (context) => {
      await requireOffered(level, context);
      await requireCgroups("memory", context);
      const service = await testService({ app: { main: CLIMBER, toml: SMALL } }, { isolation: level });
      // The first call starts it.
      await service.call("app", { folder: "/" }, { functionName: "climb" });
      const pid = [...service.apps.get("app")!.pool.replicas][0]!.pid;
      const groups = groupsOf(service.settings.dataDir);
      // Of the template and of the replica, in the three hierarchies of version 1 or the one of version 2.
      expect([2, 6]).toContain(groups.length);
      const own = groups.filter((group) =>
        readFileSync(path.join(group, "cgroup.procs"), "utf8").split("\n").includes(String(pid)),
      );
      expect(own).toHaveLength(groups.length / 2);
      for (const folder of own)
        expect((await service.call("app", { folder }, { functionName: "climb" })).json.result).toEqual([]);
    },
  );
}
