import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { scratchDirectory } from "../../../support/command-line.ts";
import { verifies } from "../../../verifies.ts";
import { agentPython } from "./agent-python.ts";

const MIB = 1024 * 1024;
const MEASURE = `
from millrace_agent.held import folder_bytes
print(json.dumps(min(folder_bytes(sys.argv[1], 10 << 20), 1 << 30)))
`;
/** Writes a megabyte below so many folders, each of that name, then measures all. */
const hidden = (name: string, depth: number): string => `
os.chdir(sys.argv[1])
for _ in range(${depth}):
    os.mkdir(${name})
    os.chdir(${name})
with open(b"\\xfe", "wb") as file:
    file.write(bytes(${MIB}))
${MEASURE}`;

verifies("walls.limits.disk", "no name and no depth hides files from being counted", () => {
  for (const [name, depth] of [
    ['b"plain"', 1],
    ['b"\\xff"', 2],
    ['"d"', 100],
    ['"d" * 255', 60],
    ['"d"', 1_000],
  ] as const) {
    const bytes = agentPython(hidden(name, depth), scratchDirectory()) as number;
    expect([name, depth, bytes >= MIB]).toEqual([name, depth, true]);
  }
});

verifies("walls.limits.disk", "a folder that the app has closed to its own user is counted", () => {
  for (const mode of ["0o300", "0o400", "0o000"]) {
    const code = `
from millrace_agent import held
from millrace_worker import linux
folder = sys.argv[1] + "/closed"
os.mkdir(folder)
with open(folder + "/large", "wb") as file:
    file.write(bytes(${MIB}))
os.chmod(folder, ${mode})
if os.geteuid() == 0:
    os.chown(folder, 65534, 65534)
    os.chmod(sys.argv[1], 0o777)
    os.seteuid(65534)
    linux._prctl(linux._PR_SET_DUMPABLE, 1)  # Or /proc/self would still be root's.
sys.argv[1] = folder
${MEASURE}`;
    expect([mode, (agentPython(code, scratchDirectory()) as number) >= MIB]).toEqual([mode, true]);
  }
});

verifies("walls.limits.disk", "what a link leads to is not counted, but for the folder itself", () => {
  const place = scratchDirectory();
  const [folder, other] = [path.join(place, "folder"), path.join(place, "other")];
  for (const each of [folder, other]) mkdirSync(each);
  writeFileSync(path.join(other, "large"), Buffer.alloc(MIB));
  symlinkSync(other, path.join(folder, "link"));
  expect(agentPython(MEASURE, folder)).toBeLessThan(MIB);
  expect(agentPython(MEASURE, path.join(folder, "link"))).toBeGreaterThanOrEqual(MIB);
});

verifies("walls.limits.disk", "empty files count, as a disk holds only so many", () => {
  const folder = scratchDirectory();
  for (let index = 0; index < 1_000; index++) writeFileSync(path.join(folder, `empty-${index}`), "");
  expect(agentPython(MEASURE, folder)).toBeGreaterThan(3 * MIB);
});

/** Watches a folder that a megabyte is the most for. `filled(name)` writes two. */
const HELD = `
import threading
from millrace_agent.held import Held
folder = sys.argv[1]
woken = threading.Event()
held = Held(woken.set, counts_place=False)
held.watch_folder("storage", folder, 1 << 20)
def filled(name):
    with open(folder + "/" + name, "wb") as file:
        file.write(bytes(2 << 20))
`;

verifies("walls.limits.disk", "a folder that holds too much is named, and one that does not is not", () => {
  const code = `${HELD}
held.look()
small = held.is_over("storage")
filled("large")
while not held.full:
    held.look()
    woken.wait(held.pause_seconds())
print(json.dumps([small, held.is_over("scratch"), held.full, held.told()]))`;
  const told = { is_out_of_memory: false, full: "storage" };
  expect(agentPython(code, scratchDirectory())).toEqual([false, false, "storage", told]);
});

verifies(
  "walls.limits.disk",
  "a file that was deleted and is still open counts in the folder it was in",
  () => {
    const code = `
from millrace_agent.held import Held
place = sys.argv[1]
found = []
for name in ("storage", "scratch"):
    folder = place + "/" + name
    os.mkdir(folder)
    ready, tell = os.pipe()
    app = os.fork()
    if app == 0:
        with open(folder + "/large", "wb") as file:
            file.write(bytes(2 << 20))
            file.flush()
            os.unlink(folder + "/large")
            os.write(tell, b"1")
            signal.pause()
    os.read(ready, 1)
    held = Held(lambda: None, counts_place=False)
    for each in ("storage", "scratch"):
        held.watch_folder(each, place, 1 << 20, place + "/storage")
    found.append([held.is_over("storage"), held.is_over("scratch")])
    os.kill(app, 9)
    os.waitpid(app, 0)
print(json.dumps(found))`;
    const found = agentPython(`import signal\n${code}`, scratchDirectory());
    expect(found).toEqual([
      [true, false],
      [false, true],
    ]);
  },
);

verifies("walls.limits.disk", "what an app wrote that has ended before the first look counts", () => {
  const code = `${HELD}
filled("large")
print(json.dumps([held.full, held.is_over("storage")]))`;
  expect(agentPython(code, scratchDirectory())).toEqual(["", true]);
});

verifies(
  "walls.limits.disk",
  "folders are measured although the app has left no room for another thread",
  () => {
    const code = `${HELD}
def refused(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refused
filled("large")
held.look()
print(json.dumps(held.full))`;
    expect(agentPython(code, scratchDirectory())).toBe("storage");
  },
);
