import { expect } from "vitest";
import { processesIn } from "../support/leak-check.ts";
import { isAlive } from "../support/process-tree.ts";
import { serveApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import os
import signal
import subprocess
import time

def start_all():
    """A child with a session of its own, and a daemon that forked twice and will not hear SIGTERM."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.chdir("/")
            time.sleep(1000)
        os.write(write, b"%d" % pid)
        os._exit(0)
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return [os.getpid(), os.getppid(), child.pid, int(os.read(read, 20))]

def hold():
    open("held", "w").close()
    while True:
        time.sleep(1)

def is_held():
    return os.path.exists("held")

def is_importing():
    return os.path.exists(os.path.join(os.environ["PERSISTENT_STORAGE"], "importing"))
`;

// While it imports it does not listen to the service: only its keeper can end it.
const IMPORTING = `
import os
import time

open(os.path.join(os.environ["PERSISTENT_STORAGE"], "importing"), "w").close()
time.sleep(1000)
`;

verifies(
  "replica.service-death",
  "after kill -9 of the service its replicas, templates and all they started are gone",
  async () => {
    const ordinary = '[deployment]\nfork = "never"\n';
    const service = await serveApps(
      {
        forked: { main: MAIN },
        plain: { main: MAIN, toml: ordinary },
        importing: { main: IMPORTING },
      },
      { MILLRACE_ISOLATION: "none" },
    );
    const pids: number[] = [];
    for (const app of ["forked", "plain"]) {
      const { status, json } = await service.call(app, "start_all");
      expect(status).toBe(200);
      pids.push(...json.result);
      // One in mid-call too.
      service.call(app, "hold").catch(() => {});
      await until("it runs", async () => (await service.call(app, "is_held")).json.result === true);
    }
    service.call("importing", "run").catch(() => {});
    await until(
      "it imports",
      async () => (await service.call("forked", "is_importing")).json.result === true,
    );
    expect(pids.filter(isAlive)).toEqual(pids);
    const all = [...pids, ...processesIn(service.directory).map(({ pid }) => pid)];
    expect(all.length).toBeGreaterThan(pids.length + 4);
    process.kill(service.command.pid, "SIGKILL");
    await service.command.exited;
    await until("nothing is left", () => all.every((pid) => !isAlive(pid)));
    expect(processesIn(service.directory)).toEqual([]);
  },
);
