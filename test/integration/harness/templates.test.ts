import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { processesIn } from "../../support/leak-check.ts";
import { parentOf } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

/** Tells how often it was imported, and from which process a replica was forked. */
const MAIN = `
import os
_path = os.path.join(os.environ["PERSISTENT_STORAGE"], os.environ["APP_NAME"])
with open(_path, "a") as _file:
    _file.write("%d\\n" % os.getpid())
del _file

def run():
    return os.getpid()
`;

const service = sharedService({}, WITHOUT_WALLS);

const replicas = (count: number) =>
  `[scaling]\nmin_replicas = ${count}\nmax_replicas = ${count}\nload_balancing_algorithm = "round-robin"\n`;

/** The processes that imported the app so far. */
function imports(app: string): number[] {
  const { settings, service: running } = service();
  const file = path.join(settings.dataDir, "storage", running.owner.projectId, app);
  return readFileSync(file, "utf8").trim().split("\n").map(Number);
}

/** Deploys an app that keeps so many replicas; gives their pids once all are ready. */
async function keep(
  count: number,
  name: string,
  main: string,
  toml = "",
  files: Record<string, string> = {},
): Promise<number[]> {
  const { pool } = await service().deploy(name, { main, toml: toml + replicas(count), files });
  await until(`${count} replicas are ready`, () => service().ready(name) === count);
  return [...pool.replicas].map(({ pid }) => pid);
}

const ascending = (pids: readonly number[]): number[] => pids.toSorted((a, b) => a - b);

/** The keeper stands between: a fork's grandparent is its template, an ordinary replica's the service. */
const grandparent = (pid: number): number => parentOf(parentOf(pid));

verifies(
  "fork.template",
  "the first start imports the app, and every replica is a fork of that process",
  async () => {
    const pids = await keep(3, "forks", MAIN);
    const [template, ...others] = imports("forks");
    expect(others).toEqual([]);
    expect(new Set(pids.map(grandparent))).toEqual(new Set([template]));
    expect(pids).not.toContain(template);
    expect(pids).toContain((await service().call("forks")).json.result);
  },
);

verifies("fork.never", 'with fork = "never" every replica imports the app itself', async () => {
  const pids = await keep(2, "alone", MAIN, '[deployment]\nfork = "never"\n');
  expect(ascending(imports("alone"))).toEqual(ascending(pids));
  expect(pids.map(grandparent)).toEqual([process.pid, process.pid]);
});

const THREAD = `${MAIN}
import threading
ticks = threading.Event()
threading.Thread(target=ticks.wait, daemon=True, name="ticker").start()

def alive():
    return [thread.name for thread in threading.enumerate()]
`;

verifies(
  ["fork.thread", "fork.ordinary"],
  "an app that starts a thread at import is not forked: its template serves, its siblings import for themselves",
  async () => {
    const pids = await keep(3, "thread", THREAD);
    expect(ascending(imports("thread"))).toEqual(ascending(pids));
    expect(pids.map(grandparent)).toEqual([process.pid, process.pid, process.pid]);
    expect((await service().call("thread", {}, { functionName: "alive" })).json.result).toContain("ticker");
  },
);

test("a thread that the threading module does not know of is seen too", async () => {
  const main = `${MAIN}
import _thread, time
_thread.start_new_thread(time.sleep, (1000,))
`;
  const pids = await keep(2, "raw", main);
  expect(ascending(imports("raw"))).toEqual(ascending(pids));
});

const SOCKET = `${MAIN}
import socket
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()

def answer():
    with socket.create_connection(listener.getsockname()) as caller:
        accepted, _ = listener.accept()
        with accepted:
            caller.sendall(b"x")
            return accepted.recv(1).decode()
`;

verifies("fork.open-file", "an app that opens a socket at import is not forked, and works", async () => {
  const pids = await keep(2, "listener", SOCKET);
  expect(ascending(imports("listener"))).toEqual(ascending(pids));
  expect((await service().call("listener", {}, { functionName: "answer" })).json).toMatchObject({
    result: "x",
  });
});

const OPENED: Record<string, string> = {
  socket: "import socket; kept = socket.socket()",
  pair: "import socket; kept = socket.socketpair()",
  pipe: "kept = os.pipe()",
  epoll: "import select; kept = select.epoll()",
  "writable-file": 'kept = open("scratch", "w")',
  database: 'import sqlite3; kept = sqlite3.connect("x.db"); kept.execute("create table t (a)")',
};

verifies(
  "fork.open-file",
  "an import that leaves a socket, pipe, epoll or writable file is not forked",
  async () => {
    for (const [name, line] of Object.entries(OPENED)) {
      const [pid = 0] = await keep(1, name, `${MAIN}\n${line}\n`);
      expect([name, grandparent(pid)]).toEqual([name, process.pid]);
      expect(imports(name)).toEqual([pid]);
    }
  },
);

test("an app that keeps a file open for reading is forked, and each replica reads at its own pace", async () => {
  const main = `${MAIN}
data = open("data.txt", "rb", buffering=0)

def read():
    return [os.getpid(), data.read(1).decode()]
`;
  const pids = await keep(2, "reader", main, "", { "data.txt": "abc" });
  expect(imports("reader")).toHaveLength(1);
  const texts = new Map(pids.map((pid) => [pid, ""]));
  for (let call = 0; call < 6; call++) {
    const [pid, letter] = (await service().call("reader", {}, { functionName: "read" })).json.result;
    texts.set(pid, texts.get(pid) + letter);
  }
  expect([...texts.values()]).toEqual(["abc", "abc"]);
});

verifies("fork.kept", "a template outlives scale-to-zero for template_keep, and no longer", async () => {
  const toml = "[scaling]\ncooldown = 0\nmax_replicas = 1\n";
  const { pool } = await service().deploy("kept", { main: MAIN, toml });
  const first = (await service().call("kept")).json.result;
  await until("no replica is left", () => pool.replicas.size === 0);
  const [template = 0] = imports("kept");
  expect(processesIn(service().directory).map(({ pid }) => pid)).toContain(template);
  const second = (await service().call("kept")).json.result;
  expect(second).not.toBe(first);
  expect(imports("kept")).toEqual([template]);

  await service().deploy("dropped", { main: MAIN, toml: `${toml}template_keep = 0\n` });
  await service().call("dropped");
  await until(
    "the template that is not kept is gone",
    () => processesIn(service().bundleDir("dropped")).length === 0,
  );
  expect((await service().call("dropped")).status).toBe(200);
  expect(imports("dropped")).toHaveLength(2);
});

test("when a template is killed its replicas go with it, and the next call finds a new one", async () => {
  const pids = await keep(2, "orphans", MAIN);
  const [template = 0] = imports("orphans");
  process.kill(template, "SIGKILL");
  const known = () => [...(service().apps.get("orphans")?.pool.replicas ?? [])].map(({ pid }) => pid);
  await until("the old replicas are gone", () => !known().some((pid) => pids.includes(pid)));
  await until("their processes too", () => pids.every((pid) => parentOf(pid) === 0));
  const answer = await service().call("orphans");
  expect([answer.status, pids.includes(answer.json.result)]).toEqual([200, false]);
  expect(imports("orphans")).toHaveLength(2);
});

test("a fork leaves no connection of the template in the replica, and no replica's in another", async () => {
  const main = `${MAIN}
def sockets():
    links = [os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")
             if os.path.exists("/proc/self/fd/" + name)]
    return sorted(link for link in links if link.startswith(("socket:", "pipe:")))
`;
  await keep(3, "apart", main);
  const seen = new Set<string>();
  for (let call = 0; call < 3; call++) {
    const links: string[] = (await service().call("apart", {}, { functionName: "sockets" })).json.result;
    // The wire, the control connection, stdout and stderr, and the door that all of them share.
    expect(links).toHaveLength(5);
    for (const link of links) seen.add(link);
  }
  expect(seen.size).toBe(13);
});
