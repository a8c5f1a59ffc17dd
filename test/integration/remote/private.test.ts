import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APP = {
  main: `
import ctypes, os, signal

libc = ctypes.CDLL(None, use_errno=True)

def parent_of(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return int(stat.read().rpartition(")")[2].split()[1])

def agent():
    pid = os.getpid()
    while True:
        pid = parent_of(pid)
        with open("/proc/%d/cmdline" % pid) as words:
            if words.read().rstrip("\\0").endswith("millrace_agent"):
                return pid

def can_read(file):
    try:
        with open(file, "rb") as opened:
            opened.read(0)
        return True
    except PermissionError:
        return False

def looks_into(pid):
    found = [name for name in ("mem", "environ", "fd/0") if can_read("/proc/%d/%s" % (pid, name))]
    if libc.ptrace(16, pid, None, None) == 0:  # It is attached to.
        os.waitpid(pid, 0x40000000)
        libc.ptrace(17, pid, None, None)
        found.append("ptrace")
    return found

def run():
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        return [looks_into(child), looks_into(agent())]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
`,
};

verifies("seats.private", "what an app may do to its own processes, it may not do to its agent", async () => {
  const { on, place } = await remoteService(databases, { app: APP });
  // As in a pod, where nobody has a right of root's.
  const python = path.join(on.directory, "python");
  await writeFile(python, `#!/bin/sh\nexec setpriv --inh-caps=-all --bounding-set=-all python3 "$@"\n`);
  await chmod(python, 0o755);
  if (process.getuid?.() === 0) place.python = python;
  const [own, agent] = (await on.call("app", {})).json.result as string[][];
  expect(own).toEqual(["mem", "environ", "fd/0", "ptrace"]);
  expect(agent).toEqual([]);
});
