import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { type ConnectionKind, Home } from "../../../src/engines/home.ts";
import { processesIn } from "../../support/leak-check.ts";
import { groupOf, isAlive, parentOf } from "../../support/process-tree.ts";
import { HandClock } from "../../support/clocks.ts";
import { testPool } from "../../support/pool.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serve } from "../../support/command-line.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import ctypes, os, subprocess, sys, time

def pid():
    return os.getpid()

def daemon(after="return"):
    """Forks twice into a session of its own, as daemons do; tells its pid."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.write(writer, b"%d\\n" % os.getpid())
            for descriptor in range(3):
                os.close(descriptor)
            time.sleep(1000)
        os._exit(0)
    daemon = int(os.read(reader, 100))
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
    path = os.path.join(os.environ["PERSISTENT_STORAGE"], "daemons")
    with open(path + ".new", "w") as file:
        file.write("%d %d" % (daemon, child))
    os.rename(path + ".new", path)
    if after == "die":
        os._exit(1)
    if after == "wait":
        # A library that never lets Python's other threads run: only the kernel's word can end this one.
        ctypes.PyDLL(None).sleep(1000)
    return [daemon, child]
`;

const service = sharedService(
  {
    forked: { main: MAIN, toml: "[scaling]\nmin_replicas = 2\nmax_replicas = 2\n" },
    ordinary: { main: MAIN, toml: '[deployment]\nfork = "never"\n[scaling]\nmax_replicas = 1\n' },
    brief: { main: MAIN, toml: "[scaling]\ncooldown = 0\n" },
  },
  WITHOUT_WALLS,
);

function daemons(dataDir: string, projectId: string): number[] {
  const file = path.join(dataDir, "storage", projectId, "daemons");
  return existsSync(file) ? readFileSync(file, "utf8").split(" ").map(Number) : [];
}

verifies("replica.process-group", "each replica leads a process group and a session of its own", async () => {
  await until("both are ready", () => service().ready("forked") === 2);
  await service().call("ordinary", {}, { functionName: "pid" });
  const pids = ["forked", "ordinary"].flatMap((app) =>
    [...(service().apps.get(app)?.pool.replicas ?? [])].map(({ pid }) => pid),
  );
  expect(pids).toHaveLength(3);
  for (const pid of pids) {
    expect(groupOf(pid)).toBe(pid);
    expect(groupOf(parentOf(pid))).not.toBe(pid);
  }
});

verifies("replica.daemons", "a double-forked daemon dies with its replica, however that ends", async () => {
  for (const [app, after] of [
    ["forked", "die"],
    ["ordinary", "die"],
    ["brief", "return"],
  ] as const) {
    const answer = await service().call(app, { after }, { functionName: "daemon" });
    expect([app, answer.status]).toEqual([app, after === "die" ? 502 : 200]);
    const left = daemons(service().settings.dataDir, service().service.owner.projectId);
    expect(left).toHaveLength(2);
    await until(`all of ${app} is gone`, () => !left.some(isAlive));
  }
});

verifies(
  "replica.service-death",
  "kill -9 of the service ends every replica and all it started",
  async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-death-"));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const first = await testService(
      { forked: { main: MAIN }, ordinary: { main: MAIN, toml: '[deployment]\nfork = "never"\n' } },
      { ...WITHOUT_WALLS, dataDir: path.join(directory, "data") },
    );
    const { projectId, token } = first.service.owner;
    await first.service.stop();
    for (const app of ["forked", "ordinary"]) {
      const { command, apiUrl } = await serve(path.join(directory, "data"), { MILLRACE_ISOLATION: "none" });
      const url = `${apiUrl}/v4/${projectId}/${app}/daemon`;
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      // One has answered and left a daemon, another is in the middle of its call.
      const answer = await fetch(url, { method: "POST", headers });
      const [daemon = 0, child = 0] = ((await answer.json()) as { result: number[] }).result;
      const broken = fetch(url, { method: "POST", headers, body: '{"after":"wait"}' }).catch(() => "broken");
      await until(
        "the second call has its daemon",
        () => !daemons(path.join(directory, "data"), projectId).includes(daemon),
      );
      const others = daemons(path.join(directory, "data"), projectId);
      expect([daemon, child, ...others].filter(isAlive)).toHaveLength(4);
      process.kill(command.pid, "SIGKILL");
      expect(await broken).toBe("broken");
      await until("nothing is left", () => ![daemon, child, ...others].some(isAlive));
      await until("no process works in the bundle", () => processesIn(directory).length === 0);
    }
  },
);

verifies(
  "replica.ticket",
  "a ticket opens each kind of connection once, and nothing else opens one",
  async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "millrace-home-"));
    const home = await Home.open(directory);
    onTestFinished(async () => {
      await home.close();
      await rm(directory, { recursive: true, force: true });
    });
    const received: ConnectionKind[] = [];
    const ticket = home.expect((kind) => received.push(kind));
    const isRefused = async (text: string): Promise<boolean> => {
      const before = received.length;
      const socket = connect(home.address);
      socket.on("error", () => {}).resume();
      socket.write(text);
      await until("it is taken or refused", () => socket.closed || received.length > before);
      socket.destroy();
      return received.length === before;
    };
    expect(await isRefused(`millrace 1 wire ${ticket}\n`)).toBe(false);
    expect(await isRefused(`millrace 1 wire ${ticket}\n`)).toBe(true);
    expect(await isRefused(`millrace 1 control ${ticket}\n`)).toBe(false);
    for (const text of [
      `millrace 1 stdout ${randomBytes(16).toString("hex")}\n`,
      `millrace 2 stdout ${ticket}\n`,
      `millrace 1 other ${ticket}\n`,
      `millrace 1 stdout ${ticket.slice(1)}\n`,
      "\n",
      "x".repeat(1000),
    ]) {
      expect([text, await isRefused(text)]).toEqual([text, true]);
    }
    home.forget(ticket);
    expect(await isRefused(`millrace 1 stderr ${ticket}\n`)).toBe(true);
    expect(received).toEqual(["wire", "control"]);
  },
);

test("the socket that replicas call is for the service's own user alone", () => {
  const folder = runtimeDir(service().settings.dataDir);
  const mode = execFileSync("stat", ["-c", "%a", folder], { encoding: "utf8" }).trim();
  expect(mode).toBe("700");
});

const TALK = `
import asyncio, logging, os, sys, threading, time
logging.basicConfig(level=logging.INFO, format="%(message)s")
print("at import")

def say(word, gate=None):
    print(word, "one"); print(word, "two", file=sys.stderr)
    logging.info(word + " logged")
    sys.stdout.write(word + " unfinished")
    if gate:
        os.write(1, (word + " raw\\n").encode())
        while not os.path.exists(gate):
            time.sleep(0.005)

async def say_async(word):
    for number in range(5):
        print(word, number)
        await asyncio.sleep(0.001)
    print(word, "end", end="")
`;

verifies(
  "replica.log-tagged",
  "every line is tagged with the run that wrote it, among many at once",
  async () => {
    const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
    await service().deploy("threads", { main: TALK.replace(/async def[^]*/, ""), toml });
    await service().deploy("looped", { main: TALK, toml });
    await service().deploy("serial", { main: TALK.replace(/async def[^]*/, "") });
    const lines = (app: string) => service().logs.filter((line) => line.appName === app);
    for (const [app, functionName, each] of [
      ["serial", "say", 4],
      ["threads", "say", 4],
      ["looped", "say", 4],
      ["looped", "say_async", 6],
    ] as const) {
      const words = Array.from({ length: 12 }, (_, index) => `${functionName}-${index}.`);
      const runIds = await Promise.all(
        words.map(async (word) => (await service().call(app, { word }, { functionName })).json.run_id),
      );
      for (const [index, word] of words.entries()) {
        const ofWord = () => lines(app).filter(({ text }) => text.startsWith(word));
        await until(`${app} said all of ${word}`, () => ofWord().length === each);
        expect(new Set(ofWord().map(({ runId }) => runId))).toEqual(new Set([runIds[index]]));
      }
    }
    const streams = lines("serial").filter(({ text }) => text.startsWith("say-0."));
    expect(new Set(streams.map(({ stream, text }) => `${stream} ${text.split(" ").at(-1)}`))).toEqual(
      new Set(["stdout one", "stderr two", "stderr logged", "stdout unfinished"]),
    );
    expect(lines("serial").find(({ text }) => text === "at import")?.runId).toBeNull();
  },
);

test("raw output is the run's that is alone in the replica", async () => {
  await service().deploy("raw", { main: TALK });
  const gate = path.join(service().directory, "gate");
  const answer = service().call("raw", { word: "loud", gate }, { functionName: "say" });
  const find = () => service().logs.find(({ text }) => text === "loud raw");
  await until("the raw line is here", () => find() !== undefined);
  await writeFile(gate, "");
  expect(find()?.runId).toBe((await answer).json.run_id);
});

verifies("replica.crash-loop", "an app that cannot start is tried again with growing gaps", async () => {
  const clock = new HandClock();
  const toml = "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n";
  const { pool, exits } = await testPool({ main: 'raise RuntimeError("never")\n', toml }, clock);
  for (const [index, ms] of [250, 500, 1_000, 2_000].entries()) {
    const hasFailed = (): boolean => exits.length > index;
    while (!hasFailed()) {
      // The last words of a process that never called home are waited for, its template's and its own.
      await Promise.race([clock.sets(500), until(`start ${index + 1} has failed`, hasFailed)]);
      if (!hasFailed()) clock.advance(500);
    }
    // Without its last words, which come late on a busy machine, the first passes for an accident and costs no wait.
    if (index === 0 && pool.counts.starts === 2) continue;
    // Give or take a fifth.
    clock.advance(0.8 * ms - 1);
    expect([ms, pool.counts.starts]).toEqual([ms, index + 1]);
    clock.advance(0.4 * ms + 1);
    expect([ms, pool.counts.starts]).toEqual([ms, index + 2]);
  }
});
