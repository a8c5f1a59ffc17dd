import path from "node:path";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { readImageRecord } from "../../host/containers/containers.ts";
import { type Exit, ended, STOPPED } from "../engine.ts";
import type { Door, Home } from "../home.ts";
import { hold } from "../local/limited.ts";
import { orderOf, type Spawn } from "../local/spawn.ts";
import type { Agent } from "../local/agent.ts";
import { type ContainerHost, startAppContainer, type AppContainer } from "./app-container.ts";
import { readFileSync } from "node:fs";
import { nearestBelow } from "../../host/processes.ts";

/** Where a container has the harness, its app and the socket to the service. */
const HARNESS = "/opt/millrace/python";
const BUNDLE = "/cortex";
const DOOR = "/run/millrace";
const START = `import sys; sys.path[:1] = [${JSON.stringify(HARNESS)}]; from millrace_worker.start import main; main()`;

/** Starts templates and replicas in containers of their app's image; each has a socket of its own to the service. */
export function spawnContainer(host: ContainerHost, home: Home): Spawn {
  return (start, _clock, events) => {
    const { limits, workload, folders, tickets, gpus } = start;
    const pids = hostPids(() => app?.top ?? 0);
    let app: AppContainer | null = null;
    let isKilled = false;
    const run = async (door: Door): Promise<Exit> => {
      if (isKilled) return STOPPED;
      const address = path.join(DOOR, path.basename(door.address));
      const started = await startAppContainer(
        host,
        workload,
        {
          program: readImageRecord(folders.environment)?.python ?? "python3",
          args: ["-c", START],
          port: null,
          input: `${orderOf(workload, { ...folders, bundle: BUNDLE }, address, tickets)}\n`,
          mounts: [
            { from: PYTHON_DIR, to: HARNESS, isReadOnly: true },
            // It may connect there, and write nothing.
            { from: path.dirname(door.address), to: DOOR, isReadOnly: true },
          ],
          variables: workload.variables,
          gpus,
        },
        events,
      );
      if (!("container" in started)) return started;
      app = started;
      if (isKilled) started.container.end();
      return await started.exited;
    };
    const live = async (): Promise<Exit> => {
      const door = await home.openDoor();
      try {
        return await run(door);
      } catch (error) {
        return ended((error as Error).message);
      } finally {
        await door.close();
      }
    };
    const look = <Found>(pid: number, ask: (agent: Agent, known: number) => Found): Found | null => {
      const known = pids(pid);
      return app?.watch && known > 0 ? ask(app.watch, known) : null;
    };
    return {
      exited: live(),
      kill: () => {
        isKilled = true;
        app?.container.end();
      },
      hostPid: pids,
      vitals: (pid) => look(pid, (agent, known) => agent.questions.vitals(known)),
      usage: async (pid) => await look(pid, (agent, known) => agent.questions.usage(known)),
      residentBytes: async () => (await app?.watch?.questions.usage(0))?.residentBytes ?? 0,
      holdFork: () => {
        const fork = limits && hold(limits, workload.limits, { why: null });
        return fork && { ...fork, ancestor: app?.top ?? 0, hostPid: pids };
      },
    };
  };
}

/** The app decides how many processes there are. */
const MAX_PROCESSES = 256;

/** Translates process ids inside a container to ids on this machine. An app cannot name processes of other apps. */
function hostPids(topOf: () => number): (inside: number) => number {
  const known = new Map<number, number>();
  return (inside) => {
    const before = known.get(inside);
    if (before !== undefined && innermost(before) === inside) return before;
    const top = topOf();
    if (top === 0) return 0;
    const found = searchFor(inside, top);
    if (found === 0) known.delete(inside);
    else known.set(inside, found);
    return found;
  };
}

function searchFor(inside: number, top: number): number {
  if (innermost(top) === inside) return top;
  let left = MAX_PROCESSES;
  for (const pid of nearestBelow(top)) {
    if (innermost(pid) === inside) return pid;
    if (--left === 0) break;
  }
  return 0;
}

/** The process's id in its innermost namespace; null if it has ended. */
function innermost(pid: number): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const names = /^NSpid:\t(.*)$/m.exec(status)?.[1]?.split("\t") ?? [];
    return Number(names.at(-1) ?? 0);
  } catch {
    return null;
  }
}
