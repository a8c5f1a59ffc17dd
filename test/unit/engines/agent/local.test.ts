import { existsSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startWatch } from "../../../../src/engines/local/agent.ts";
import { packPlan, type Plan } from "../../../../src/engines/local/plan.ts";
import { systemClock } from "../../../../src/kit/clock.ts";
import { scratchDirectory } from "../../../support/command-line.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { agentPython } from "./agent-python.ts";

const PLAN: Plan = {
  program: "/bin/sh",
  args: ["-c", "echo begun > begun; sleep 1000"],
  cwd: "/",
  env: { PATH: "/usr/bin:/bin", SECRET: "end=" },
  order: null,
  home: null,
  input: null,
  walls: null,
  watched: null,
  server: null,
};

verifies("replica.service-death", "of a plan that was cut off, an agent starts nothing", () => {
  const code = `
from millrace_walls.plan import parse
text = os.fsencode(sys.argv[1]).replace(b"\\n", b"\\0")
def starts(part):
    try:
        return parse(part) is not None
    except ValueError:
        return False
print(json.dumps([size for size in range(len(text) + 1) if starts(text[:size])] == [len(text)]))
`;
  expect(agentPython(code, packPlan(PLAN).replaceAll("\0", "\n"))).toBe(true);
});

/** Starts an agent whose service is dead by the time that its interpreter runs, and gives how it exits. */
const ORPHAN = `
import socket, subprocess
from millrace_worker import linux
linux.adopt_orphans()
folder = sys.argv[1]
with open(folder + "/plan", "wb") as file:
    file.write(os.fsencode(sys.argv[2]).replace(b"\\n", b"\\0"))
START = "import sys; sys.path.insert(0, %r); from millrace_agent.local import main; main()" % sys.path[0]
service = os.fork()
if service == 0:
    ours, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), 10)
    ours.close()
    theirs.close()
    os.dup2(10, 3)
    os.dup2(os.open(folder + "/plan", os.O_RDONLY), 0)
    # It begins only once its parent has ended.
    wait = "import os, time\\nwhile os.getppid() == %d: time.sleep(0.001)\\n" % os.getpid()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", wait + START])
    os._exit(0)
os.waitpid(service, 0)
_, status = os.wait()
left = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="], stdout=subprocess.PIPE, text=True).stdout.split()
print(json.dumps([os.waitstatus_to_exitcode(status), [each for each in left if each != "ps"]]))
`;

verifies(
  "replica.service-death",
  "an agent whose service died before it began ends, with all it started",
  () => {
    const cwd = scratchDirectory();
    const plan = packPlan({ ...PLAN, cwd }).replaceAll("\0", "\n");
    expect(agentPython(ORPHAN, cwd, plan)).toEqual([137, []]);
  },
);

/** A keeper that fails, above a process with a daemon. */
const FAILING = `
import signal, time
from millrace_worker import keeper, linux
linux.adopt_orphans()
told, tell = os.pipe()

def ward():
    if os.fork() == 0:
        os.setsid()
        os.write(tell, b"%d" % os.getpid())
        while True:
            signal.pause()
    while True:
        signal.pause()

def wait_for(child):
    global daemon
    daemon = os.read(told, 20)
    os.write(report, daemon)
    raise RuntimeError("a bug")

heard, report = os.pipe()
above = os.getpid()
top = os.fork()
if top == 0:
    keeper.keep(ward, above, os.fork, wait_for)
daemon = int(os.read(heard, 20))
_, status = os.waitpid(top, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), os.path.exists("/proc/%d" % daemon)]))
`;

verifies("replica.daemons", "what goes wrong in a keeper itself leaves nothing behind", () => {
  expect(agentPython(FAILING)).toEqual([1, false]);
});

/** A door, and processes that show tickets there; home is a socket that takes every connection. */
const DOOR = `
import signal, socket, tempfile
from millrace_agent.door import Door

home = socket.socket(socket.AF_UNIX)
folder = tempfile.TemporaryDirectory()
home.bind(folder.name + "/home")
home.listen(1000)
outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door = Door(outer, folder.name + "/home")

def show(ticket, kind="wire"):
    """Has another process ask for a connection, and gives its pid."""
    pid = os.fork()
    if pid == 0:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(inner, [("millrace 1 %s %s" % (kind, ticket)).encode()], [theirs.fileno()])
        os._exit(0)
    os.waitpid(pid, 0)
    door.answer()
    return pid
`;

verifies(
  "walls.limits.memory",
  "no process of an app gets a limit of its own by showing a ticket that the service did not give out",
  () => {
    const code = `${DOOR}
real, forged = "a" * 32, "b" * 32
show(forged, "template")
show(forged)
door.expect(real)
first = show(real)
show(real)
for number in range(200):
    show("%032x" % number)
print(json.dumps([door.forks() == {real: first}]))`;
    expect(agentPython(code)).toEqual([true]);
  },
);

verifies(
  "walls.limits.disk",
  "an agent says of the storage what it has seen, and nothing if it was ended",
  () => {
    const run = (name: string, checksStorage: boolean, script: string): unknown => {
      const cwd = scratchDirectory();
      const folders = [{ name: "storage", maxBytes: 1_000_000, path: cwd } as const];
      const plan = packPlan({
        ...PLAN,
        cwd,
        args: ["-c", script],
        watched: { memoryBytes: null, folders, checksStorage },
      });
      const code = `
import socket, subprocess
ours, theirs = socket.socketpair()
START = "import sys; sys.path.insert(0, %r); from millrace_agent.local import main; main()" % sys.path[0]
def child():
    os.dup2(theirs.fileno(), 3)
ran = subprocess.Popen([sys.executable, "-I", "-S", "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=child, pass_fds=[3])
theirs.close()
ran.stdin.write(os.fsencode(sys.argv[1]).replace(b"\\n", b"\\0"))
ran.stdin.close()
if ran.stdout.readline():
    ran.terminate()
ran.wait()
said = ours.recv(1000)
print(json.dumps(json.loads(said) if said else None))`;
      const said = agentPython(code, plan.replaceAll("\0", "\n"));
      expect([name, existsSync(path.join(cwd, "begun"))]).toEqual([name, true]);
      return said;
    };
    const fill = "echo > begun; head -c 2000000 /dev/zero > large";
    expect(run("small", false, "echo > begun")).toBeNull();
    expect(run("small again", true, "echo > begun")).toEqual({ exited: { is_storage_full: false } });
    expect(run("full", false, fill)).toMatchObject({ exited: { is_storage_full: true } });
    expect(run("ended", true, "echo > begun; echo ready; exec sleep 1000")).toBeNull();
  },
);

test("an agent that cannot be started, and whose end nothing waits for, does not end the service", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  const watch = startWatch({ python: "/nonexistent/python3", cwd: "/", input: "{}" }, systemClock);
  await until("its pipes are closed", () => watch.stdout.destroyed);
  await new Promise((resolve) => void setImmediate(resolve));
  expect(unhandled).toEqual([]);
  await expect(watch.exited).rejects.toThrow("ENOENT");
});
