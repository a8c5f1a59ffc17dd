import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { processesIn } from "../support/leak-check.ts";
import { childrenOf, isAlive } from "../support/process-tree.ts";
import { serveApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import os
import signal
import subprocess
import time

def start_all():
    """A child with a session of its own, and a daemon that forked twice and will not hear SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.chdir("/")
            time.sleep(1000)
        os._exit(0)
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    return True

def stop_all():
    """Stops what of those above it can be stopped: keeper, template, and the agent or the first process of its view."""
    pid = os.getpid()
    for _ in range(3):
        with open("/proc/%d/stat" % pid) as stat:
            pid = int(stat.read().rpartition(")")[2].split()[1])
        if pid <= 1:
            break
        try:
            os.kill(pid, signal.SIGSTOP)
        except PermissionError:
            break
    return True
`;

function below(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...below(child)]);
}

for (const level of WALL_LEVELS) {
  verifies(
    "walls.service-death",
    `on ${level} kill -9 of the service leaves no process of an app`,
    async (context) => {
      await requireOffered(level, context);
      const apps = {
        forked: { main: MAIN },
        plain: { main: MAIN, toml: '[deployment]\nfork = "never"\n' },
        stopping: { main: MAIN },
      };
      const service = await serveApps(apps, {
        MILLRACE_ISOLATION: level,
        MILLRACE_PYTHON: (await onlyUpTo(level)).python,
      });
      for (const app of Object.keys(apps))
        expect(await service.call(app, "start_all")).toMatchObject({ status: 200 });
      expect(await service.call("stopping", "stop_all")).toMatchObject({ status: 200 });
      const all = below(service.command.pid);
      // Agent, template or first replica, the child and the daemon; and of forks a keeper and a replica.
      expect(all.length).toBeGreaterThanOrEqual(16);
      process.kill(service.command.pid, "SIGKILL");
      await service.command.exited;
      await until("nothing is left", () => !all.some((pid) => isAlive(pid)));
      expect(processesIn(service.directory)).toEqual([]);
      // The next service removes what this one could not.
      expect(readdirSync(path.join(service.directory, "data", "scratch"))).toHaveLength(3);
    },
  );
}
