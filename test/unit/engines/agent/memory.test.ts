import { expect } from "vitest";
import { verifies } from "../../../verifies.ts";
import { agentPython } from "./agent-python.ts";

/**
 * A process that forks one, which does what it is told and waits. `looked(limit)` gives what was ended of all below the
 * first, and `end()` the signal that has ended the second, or 0 if none had.
 */
const FAMILY = `
import ctypes, mmap, signal, threading, time
from millrace_agent import looks
from millrace_agent.memory import Memory, Unmapped, charge
from millrace_worker import linux

MB = 1_000_000
held = os.memfd_create("of both")

def fill(descriptor, megabytes):
    for _ in range(megabytes):
        os.write(descriptor, b"x" * MB)

def wait():
    while True:
        signal.pause()

def start(work):
    told, tell = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        linux.adopt_orphans()
        child = os.fork()
        if child == 0:
            work(lambda: os.write(tell, b"%d\\n" % os.getpid()))
            wait()
        os.write(tell, b"%d\\n" % os.waitpid(child, 0)[1])
        wait()
    os.close(tell)
    lines = os.fdopen(told)
    child = int(lines.readline())

    def looked(megabytes, forks=lambda: {}):
        memory = Memory(megabytes * MB, keeper, forks)
        memory.look()
        return sorted(memory.ended)

    def end():
        try:
            os.kill(child, signal.SIGTERM)
        except ProcessLookupError:
            pass
        status = int(lines.readline())
        os.kill(keeper, signal.SIGKILL)
        return status

    return child, looked, end

def say(value):
    print(json.dumps(value))
`;

const KILLED = 9;
const TERMINATED = 15;

function family(code: string): unknown {
  return agentPython(FAMILY + code);
}

verifies("walls.limits.memory.unmapped", "a file in memory counts that nothing has mapped", () => {
  const work = `
def work(ready):
    fill(os.memfd_create("own"), 60)
    ready()
child, looked, end = start(work)
say([looked(90), looked(50), end()])`;
  expect(family(work)).toEqual([[], [""], KILLED]);
});

verifies("walls.limits.memory.unmapped", "so does a file in /dev/shm without a name", () => {
  const work = `
def work(ready):
    path = "/dev/shm/millrace-test-%d" % os.getpid()
    own = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.unlink(path)
    fill(own, 60)
    ready()
child, looked, end = start(work)
say([looked(50), end()])`;
  expect(family(work)).toEqual([[""], KILLED]);
});

verifies("walls.limits.memory.unmapped", "a file that is mapped as well counts once", () => {
  const work = `
def work(ready):
    own = os.memfd_create("own")
    fill(own, 60)
    mapped = mmap.mmap(own, 60 * MB)
    sum(mapped[at] for at in range(0, len(mapped), 4096))
    ready()
    wait()
child, looked, end = start(work)
say([looked(90), end()])`;
  expect(family(work)).toEqual([[], TERMINATED]);
});

verifies(
  "walls.limits.memory.unmapped",
  "of a file that a fork has from its template, each is charged for a part",
  () => {
    const work = `
def work(ready):
    fill(held, 60)
    ready()
child, looked, end = start(work)
say([looked(55, lambda: {"fork": child}), looked(25, lambda: {"fork": child}), end()])`;
    // The template is charged for the other part, and ends for it, but for the process at the top.
    expect(family(work)).toEqual([[], ["", "fork"], KILLED]);
  },
);

verifies(
  "walls.limits.memory.unmapped",
  "what lies in a view of several groups is shared, without what one of them has open or mapped",
  () => {
    const code = `
def group(files={}, views={}, mapped=0, tables=0):
    made = Unmapped([], {})
    made.files, made.views, made.mapped, made.tables = files, views, mapped, tables
    return made

def charged(mapped):
    groups = [
        group(views={7: 100}, tables=1, mapped=mapped),
        group(views={7: 100}, files={"7:1": (7, 40)}, mapped=mapped),
        group(files={"8:1": (8, 30)}, mapped=mapped),
    ]
    return [[each.files, each.rest, each.tables] for each in charge(groups)]

say([charged(0), [rest for _, rest, _ in charged(80)]])`;
    expect(family(code)).toEqual([
      [
        [0, 30, 1],
        [40, 30, 0],
        [30, 0, 0],
      ],
      // Both have mapped the same: nothing is left, and never less than that.
      [0, 0, 0],
    ]);
  },
);

verifies("walls.limits.memory", "a process that was killed or exits is known to be ending", () => {
  const EXITING = 0x4;
  const RANDOMIZED = 0x400000;
  const [SIGKILL, SIGTERM] = [1 << 8, 1 << 14];
  // The words of its file in /proc behind the name: flags, pages and pending signals.
  const isEnding = (flags: number, pending: number): unknown =>
    agentPython(`
from millrace_agent import memory
words = ["R"] + ["0"] * 47
words[6], words[21], words[28] = "${flags}", "3", "${pending}"
print(json.dumps(memory._held(words) == 0))`);
  expect(isEnding(RANDOMIZED, SIGTERM)).toBe(false);
  expect(isEnding(RANDOMIZED | EXITING, 0)).toBe(true);
  expect(isEnding(RANDOMIZED, SIGTERM | SIGKILL)).toBe(true);
});

verifies("walls.limits.memory", "a process whose first thread has ended counts with all it holds", () => {
  const work = `
def work(ready):
    def hold():
        own = os.urandom(1) * (60 * MB)
        while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
            pass
        ready()
        threading.Event().wait(len(own))
    threading.Thread(target=hold).start()
    ctypes.CDLL(None).pthread_exit(None)
child, looked, end = start(work)
say([looked(200), looked(50), end()])`;
  expect(family(work)).toEqual([[], [""], KILLED]);
});

verifies("walls.limits.memory", "so does what a thread has started, while other threads come and go", () => {
  const work = `
def work(ready):
    def turn():
        while True:
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
    def hold():
        told, tell = os.pipe()
        if os.fork() == 0:
            own = os.urandom(1) * (60 * MB)
            os.write(tell, b"x")
            wait()
        os.read(told, 1)
        for _ in range(4):
            threading.Thread(target=turn).start()
        ready()
        threading.Event().wait()
    threading.Thread(target=hold).start()
child, looked, end = start(work)
say([looked(50), end()])`;
  expect(family(work)).toEqual([[""], KILLED]);
});

verifies("walls.limits.memory", "a daemon counts, and ends with the rest", () => {
  const work = `
def work(ready):
    if os.fork() == 0:
        if os.fork() == 0:
            own = os.urandom(1) * (60 * MB)
            ready()
            wait()
        os._exit(0)
daemon, looked, end = start(work)
found = [looked(200), looked(50)]
while looks.words("/proc/%d/stat" % daemon)[0] != "Z":
    pass
say([*found, end()])`;
  expect(family(work)).toEqual([[], [""], KILLED]);
});
