import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync, chownSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { createInterface } from "node:readline";
import { expect, onTestFinished, type TestContext } from "vitest";
import { ATTACKS } from "../../../src/cli/operator/escape/try-attacks.ts";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import type { Workload } from "../../../src/engines/engine.ts";
import { Home } from "../../../src/engines/home.ts";
import { LogSockets } from "../../../src/engines/log-lines.ts";
import { spawnPython } from "../../../src/engines/local/spawn.ts";
import { type ForkGpus, Template } from "../../../src/engines/templates/template.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { WALL_LEVELS, type WallLevel } from "../../../src/host/walls/walls.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import {
  alteredHost,
  copyHarness,
  removeWalled,
  runAltered,
  temporaryFolder,
} from "../../support/walls/altered-host.ts";
import { OPEN_NETWORK } from "../../support/walls/open-network.ts";
import { FIRST_USER, requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** Devices that every host has: these play the part of two GPUs. */
const FIRST = "/dev/full";
const SECOND = "/dev/zero";
const BOTH = [FIRST, SECOND];
const NOTHING = { network: "false" } as const;

const OPENED = `
import json, os
def opened():
    found = []
    for path in ("/dev/full", "/dev/zero", "/dev/null"):
        try:
            os.close(os.open(path, os.O_RDWR))
            found.append(path)
        except OSError:
            pass
    return found
`;

for (const level of WALL_LEVELS)
  verifies("gpu.enforced", `on ${level} an app can open the GPUs that it was granted`, async (context) => {
    await requireOffered(level, context);
    const opened = (granted: readonly string[], none?: true): unknown => {
      const gpus = { all: BOTH, granted, ...(none && { none }) };
      return runAltered({ level, gpus, fields: NOTHING }, `${OPENED}print(json.dumps(opened()))`);
    };
    const all = [...BOTH, "/dev/null"];
    const found = [opened([], true), opened([]), opened([SECOND]), opened(BOTH)];
    // Without a filter of paths nothing is kept from it.
    expect(found).toEqual(
      level === "process" ? [all, all, all, all] : [["/dev/null"], ["/dev/null"], [SECOND, "/dev/null"], all],
    );
  });

const ATTACKER = `
import json, os, sys
sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_escape.hostile import attack_each
facts = {
    "storage": os.path.realpath(os.environ["HOME"] + "/../storage"), "tag": "t",
    "gpu_files": ["/dev/full", "/dev/zero"], "gpu_numbers": {"/dev/full": os.makedev(1, 7), "/dev/zero": os.makedev(1, 5)},
    "service_pid": int(sys.argv[2]), "outer_pid": os.getppid(), "neighbour_pid": int(sys.argv[3]),
}
print(json.dumps(dict(zip(json.loads(sys.argv[1]), attack_each(list(json.loads(sys.argv[1]).values()), facts)))))
`;

/** What became of the attacks of an app with these GPUs, by their names. */
function attacked(level: WallLevel, granted: readonly string[]): Record<string, string> {
  const fit = (ATTACKS["gpus"] ?? []).filter(
    ({ from, stoppedBy }) => stoppedBy !== "uid" && (from === "gpu") === granted.length > 0,
  );
  const codes = JSON.stringify(Object.fromEntries(fit.map(({ name, code }) => [name, code])));
  const altered = {
    level,
    gpus: { all: BOTH, granted, ...(granted.length === 0 && { none: true as const }) },
    fields: NOTHING,
  };
  const pids = [String(process.pid), String(process.ppid)];
  return runAltered(altered, ATTACKER, codes, ...pids) as Record<string, string>;
}

for (const level of WALL_LEVELS)
  verifies(
    ["gpu.attacks", "walls.attacks"],
    `on ${level} apps without a GPU, and with another, are stopped at every way to one, or nowhere`,
    async (context) => {
      await requireOffered(level, context);
      for (const granted of [[], [FIRST]]) {
        const results = Object.entries(attacked(level, granted));
        expect(results.length).toBeGreaterThan(15);
        expect(results.filter(([, result]) => result.startsWith("broken"))).toEqual([]);
        const escaped = results.filter(([, result]) => result === "escaped").map(([name]) => name);
        if (level === "process") expect(escaped.length).toBeGreaterThanOrEqual(6);
        else expect(escaped).toEqual([]);
      }
    },
  );

/** Says which devices it can open each time that it is asked to end, and whether it can change that. */
const ASKED = `
${OPENED}
import signal, struct, sys, threading
sys.path.insert(0, sys.argv[1])
from millrace_escape.hostile import call
def change(path):
    attempts = (
        lambda: call("mount_setattr", -100, path.encode(), 0, struct.pack("=QQQQ", 0, 4, 0, 0), 32),
        lambda: call("umount2", path.encode(), 2),
        lambda: call("mount", path.encode(), path.encode(), 0, 32 | 4096, 0),
        lambda: call("unshare", 0x10020000),
        lambda: call("setns", os.open("/proc/1/ns/user", os.O_RDONLY), 0),
    )
    for attempt in attempts:
        try:
            attempt()
            return True
        except OSError:
            pass
    return False
held = os.open("/dev/full", os.O_PATH)
def by_descriptor():
    try:
        os.close(os.open("/proc/self/fd/%d" % held, os.O_RDWR))
        return True
    except OSError:
        return False
def hand_over():
    """To a process that does nothing else, and that the last of many threads of another one has started."""
    kept = os.open("/dev/full", os.O_RDWR)
    told, tell = os.pipe()
    if os.fork() == 0:
        for number in range(100):
            threading.Thread(target=live, args=(number == 99, kept, tell), daemon=True).start()
        signal.pause()
    os.close(kept)
    return int(os.read(told, 20))
def live(starts, kept, tell):
    if starts:
        child = os.fork()
        if child == 0:
            signal.pause()
        os.close(kept)
        os.write(tell, b"%d" % child)
    signal.pause()
def is_held():
    try:
        return len(os.listdir("/proc/%d/fd" % holder)) > 0
    except PermissionError:
        return False  # A zombie.
holder = hand_over()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("begun", flush=True)
while True:
    signal.sigwait({signal.SIGTERM})
    print(json.dumps([any(map(change, ("/dev/full", "/dev/zero"))), by_descriptor(), is_held(), opened()]), flush=True)
`;

/** An agent that keeps that program; as its service, this process says what it can open. */
class Seat {
  readonly #channel: Readable & Writable;
  readonly #heard: AsyncIterator<string>;
  readonly #printed: AsyncIterator<string>;
  #id = 0;

  constructor(python: string, args: readonly string[], user: number | null) {
    const child = spawn(python, args, {
      stdio: ["ignore", "pipe", "inherit", "pipe"],
      ...(user !== null && { uid: user, gid: user }),
      cwd: "/",
    });
    onTestFinished(() => void child.kill("SIGTERM"));
    this.#channel = child.stdio[3] as unknown as Readable & Writable;
    this.#heard = createInterface({ input: this.#channel })[Symbol.asyncIterator]();
    this.#printed = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  }

  async begin(): Promise<void> {
    expect((await this.#printed.next()).value).toBe("begun");
  }

  /** The answer to an order, without its id. */
  async show(gpus: readonly string[]): Promise<unknown> {
    const id = ++this.#id;
    this.#channel.write(`${JSON.stringify({ show: { id, gpus } })}\n`);
    const { shown } = JSON.parse((await this.#heard.next()).value as string) as {
      shown: { id: number; problem: string | null };
    };
    expect(shown.id).toBe(id);
    return shown.problem;
  }

  async opened(): Promise<unknown> {
    this.#channel.write('{"ask":{}}\n');
    return JSON.parse((await this.#printed.next()).value as string) as unknown;
  }
}

const NOBODY = 65_534;
const SYSTEM_PYTHON = "/usr/bin/python3";
const IS_ROOT = process.getuid?.() === 0;

function skip(context: TestContext, why: string): never {
  process.stderr.write(`\nNOT TESTED: ${why}\n`);
  context.skip(why);
  throw new Error(why);
}

const USERS = [
  ["the user of the tests", "userns"],
  ["the user of the tests", "uid"],
  ["an ordinary user", "userns"],
] as const;

for (const [user, level] of USERS)
  verifies(
    "gpu.changed",
    `as ${user} on ${level} the agent opens and closes GPUs of a seat that runs, and the app cannot`,
    async (context) => {
      await requireOffered(level, context);
      const isOther = user === "an ordinary user";
      if (isOther && !(IS_ROOT && existsSync(SYSTEM_PYTHON)))
        skip(context, `root and ${SYSTEM_PYTHON} are needed`);
      const folder = temporaryFolder(isOther ? NOBODY : undefined);
      const { harness, support } = copyHarness(folder);
      const gpus = { all: BOTH, granted: [FIRST] };
      const [, , , changes = ""] = alteredHost(
        { level, gpus, fields: { ...NOTHING, service: "true" } },
        folder,
      );
      const args = [path.join(support, "altered-host.py"), harness, folder, changes, ASKED, harness];
      const seat = new Seat(isOther ? SYSTEM_PYTHON : "python3", args, isOther ? NOBODY : null);
      await seat.begin();
      // At first, another process of the app has the first one open as well.
      const can = (...opened: string[]) => [false, opened.includes(FIRST), false, [...opened, "/dev/null"]];
      expect(await seat.opened()).toEqual(can(FIRST).with(2, true));
      expect(await seat.show(BOTH)).toBeNull();
      expect(await seat.opened()).toEqual(can(...BOTH).with(2, true));
      for (const granted of [[SECOND], BOTH, [], [FIRST]]) {
        expect(await seat.show(granted)).toBeNull();
        expect(await seat.opened()).toEqual(can(...granted));
      }
      // Devices that are none of its GPUs stay as they are.
      expect(await seat.show(["/dev/null"])).toContain("none of the GPUs");
      expect(await seat.opened()).toEqual(can(FIRST));
    },
  );

/** Each fork says what it can open, and what it was told of its GPUs. */
const FORKED = `
${OPENED}
FIRST_SEEN = opened()
def moved():
    folder = os.environ["PERSISTENT_STORAGE"] + "/" + str(os.getpid())
    os.makedirs(folder)
    open(os.environ["HOME"] + "/plain", "w").close()
    os.rename(os.environ["HOME"] + "/plain", os.environ["HOME"] + "/moved")
    open(folder + "/file", "w").close()
    os.rename(folder + "/file", os.environ["PERSISTENT_STORAGE"] + "/moved")
    return True
def setup():
    print(json.dumps([FIRST_SEEN, opened(), os.environ.get("CUDA_VISIBLE_DEVICES"), moved()]), flush=True)
def run():
    pass
`;

const WORKLOAD: Workload = {
  version: {
    id: "v-1",
    appNumber: 1,
    bundleBlob: null,
    environmentBlob: null,
    environmentTag: null,
  },
  projectId: "p-1",
  bundle: "b",
  environment: null,
  python: null,
  variables: {},
  concurrency: 1,
  ignoreExtra: false,
  maxResultBytes: 1_000_000,
  maxChunkBytes: 1_000_000,
  mayFork: true,
  limits: { memoryBytes: null, cpus: null, cpuShare: 1 },
  network: false,
  unixSockets: false,
  containerRuntime: null,
  gpus: null,
  graceMs: 1_000,
  server: null,
};

/** Starts a template of that app in a seat with both GPUs. */
async function templateOf(main: string, level: "userns" | "uid") {
  const { path: python } = await findInterpreter("python3");
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-forks-"));
  onTestFinished(() => removeWalled(dataDir));
  const user = level === "uid" ? FIRST_USER : null;
  const [bundle, storage] = ["bundle", "storage"].map((name) => {
    const folder = path.join(dataDir, name);
    mkdirSync(folder);
    if (user !== null) chownSync(folder, user, user);
    return folder;
  }) as [string, string];
  writeFileSync(path.join(bundle, "main.py"), main);
  const home = await Home.open(path.join(dataDir, "run"));
  onTestFinished(() => home.close());
  /** A ticket whose process prints one line. */
  const expectOne = (template?: (socket: Parameters<Template["attach"]>[0]) => void) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const logs = new LogSockets("p-1", {
      // Anything else is a traceback.
      onLog: ({ text }) => resolve(text.startsWith("[") ? JSON.parse(text) : text),
      onError: (error: unknown) => {
        throw error;
      },
    });
    const ticket = home.expect((kind, socket) => {
      if (kind === "template") template?.(socket);
      else if (!logs.take(kind, socket)) socket.resume();
    });
    return { ticket, line: promise };
  };
  const forks = Promise.withResolvers<boolean>();
  let made: Template | null = null;
  const { ticket } = expectOne((socket) => made?.attach(socket));
  const started = spawnPython(
    {
      agentPython: python,
      python: { program: python, interpreter: python, path: [], names: null },
      workload: WORKLOAD,
      folders: { bundle, storage, environment: null },
      walls: { level, dataDir, reads: [], network: OPEN_NETWORK, user },
      limits: null,
      gpus: {
        grant: { gpus: [], memoryBytes: null },
        all: BOTH,
        files: BOTH,
        variables: { CUDA_VISIBLE_DEVICES: "0,1" },
      },
      address: home.address,
      tickets: { template: ticket, replica: "0".repeat(32) },
    },
    systemClock,
    {
      onLog: ({ text }: { text: string }) => process.stderr.write(`${text}\n`),
      onError: () => {},
    },
  );
  made = new Template(started, systemClock, {
    onReady: (mayFork) => forks.resolve(mayFork),
    onIdle: () => {},
    onFault: (fault) => forks.reject(new Error(fault)),
    onDead: () => {},
    onLost: () => {},
    onError: (error) => forks.reject(error),
    onGone: ({ detail }) => forks.reject(new Error(detail)),
  });
  onTestFinished(async () => await made?.close());
  const forked = async (gpus: ForkGpus | null): Promise<unknown> => {
    const { ticket: own, line } = expectOne();
    made?.fork({ id: own.slice(0, 12), ticket: own }, gpus);
    return await line;
  };
  return { started, mayFork: await forks.promise, forked };
}

for (const level of ["userns", "uid"] as const)
  verifies("gpu.forks", `on ${level} each fork can open its own GPUs of a seat`, async (context) => {
    await requireOffered(level, context);
    const { started, mayFork, forked } = await templateOf(FORKED, level);
    expect(mayFork).toBe(true);
    const all = [...BOTH, "/dev/null"];
    const variables = (numbers: string) => ({ CUDA_VISIBLE_DEVICES: numbers });
    expect(await forked({ files: [SECOND], variables: variables("0") })).toEqual([
      all,
      [SECOND, "/dev/null"],
      "0",
      true,
    ]);
    expect(await forked({ files: BOTH, variables: variables("0,1") })).toEqual([all, all, "0,1", true]);
    expect(await forked(null)).toEqual([all, ["/dev/null"], "", true]);
    // What the seat does not show, no fork can open.
    await started.showGpus?.([SECOND]);
    const both = { files: BOTH, variables: variables("0,1") };
    expect(await forked(both)).toEqual([all, [SECOND, "/dev/null"], "0,1", true]);
    await expect(started.showGpus?.(["/dev/null"])).rejects.toThrow("none of the GPUs");
    started.kill();
    await started.exited;
    await started.showGpus?.([]);
  });

/** The service's modules for GPUs are there when an app is imported. */
const OLD_LANDLOCK = `
import sys
sys.modules["millrace_walls.landlock"].version = lambda: 1
`;

verifies(
  "gpu.forks",
  "nothing is forked where forks cannot be kept to GPUs of their own",
  async (context) => {
    await requireOffered("userns", context);
    const { mayFork } = await templateOf(OLD_LANDLOCK + FORKED, "userns");
    expect(mayFork).toBe(false);
  },
);
