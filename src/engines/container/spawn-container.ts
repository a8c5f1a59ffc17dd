import path from "node:path";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { readImageRecord } from "../../host/containers/containers.ts";
import type { StartedContainer } from "../../host/containers/start-container.ts";
import { type Exit, type SeatEvents, type Started, ended, STOPPED } from "../engine.ts";
import type { Door, Home } from "../home.ts";
import { hold } from "../local/limited.ts";
import { orderOf, type ProcessStart, type Spawn, type StartedProcess } from "../local/spawn.ts";
import type { Agent } from "../local/agent.ts";
import { type ContainerHost, startAppContainer } from "./app-container.ts";
import { readFileSync } from "node:fs";
import { nearestBelow } from "../../host/processes.ts";

/** Where a container has the harness, its app and the socket to the service. */
const HARNESS = "/opt/millrace/python";
const BUNDLE = "/cortex";
const DOOR = "/run/millrace";
const START = `import sys; sys.path[:1] = [${JSON.stringify(HARNESS)}]; from millrace_worker.start import main; main()`;

/** Starts templates and replicas in containers of their app's image; each has a socket of its own to the service. */
export function spawnContainer(host: ContainerHost, home: Home): Spawn {
  return (start, _clock, events) => new SpawnedContainer(host, home, start, events).process;
}

class SpawnedContainer {
  readonly process: StartedProcess;
  readonly #host: ContainerHost;
  readonly #home: Home;
  readonly #start: ProcessStart;
  readonly #events: Pick<SeatEvents, "onLog" | "onError">;
  readonly #pids = new HostPids();
  #container: StartedContainer | null = null;
  #watch: Agent | null = null;
  #isKilled = false;

  constructor(
    host: ContainerHost,
    home: Home,
    start: ProcessStart,
    events: Pick<SeatEvents, "onLog" | "onError">,
  ) {
    this.#host = host;
    this.#home = home;
    this.#start = start;
    this.#events = events;
    const { limits, workload } = start;
    const exited = this.#live();
    this.process = {
      exited,
      kill: () => {
        this.#isKilled = true;
        this.#container?.end();
      },
      vitals: (pid) => this.#look(pid, (agent, known) => agent.questions.vitals(known)),
      usage: async (pid) => await this.#look(pid, (agent, known) => agent.questions.usage(known)),
      residentBytes: async () => (await this.#watch?.questions.usage(0))?.residentBytes ?? 0,
      holdFork: () => {
        const fork = limits && hold(limits, workload.limits, { why: null });
        return fork && { ...fork, ancestor: this.#pids.first, hostPid: (pid) => this.#pids.of(pid) };
      },
    } satisfies Started & StartedProcess;
  }

  /** Null for an unknown process. */
  #look<Found>(pid: number, ask: (agent: Agent, known: number) => Found): Found | null {
    const known = this.#pids.of(pid);
    return this.#watch && known > 0 ? ask(this.#watch, known) : null;
  }

  async #live(): Promise<Exit> {
    const door = await this.#home.openDoor();
    try {
      return await this.#run(door);
    } catch (error) {
      return ended((error as Error).message);
    } finally {
      await door.close();
    }
  }

  async #run(door: Door): Promise<Exit> {
    const { workload, folders, tickets } = this.#start;
    if (this.#isKilled) return STOPPED;
    const python = readImageRecord(folders.environment)?.python ?? "python3";
    const address = path.join(DOOR, path.basename(door.address));
    const started = await startAppContainer(
      this.#host,
      workload,
      {
        program: python,
        args: ["-c", START],
        port: null,
        input: `${orderOf(workload, { ...folders, bundle: BUNDLE }, address, tickets)}\n`,
        mounts: [
          { from: PYTHON_DIR, to: HARNESS, isReadOnly: true },
          // It may connect there, and write nothing.
          { from: path.dirname(door.address), to: DOOR, isReadOnly: true },
        ],
        variables: workload.variables,
      },
      this.#events,
    );
    if (!("container" in started)) return started;
    this.#container = started.container;
    if (this.#isKilled) started.container.end();
    started.onBorn((pid) => (this.#pids.first = pid));
    void started.watch.then((agent) => (this.#watch = agent));
    return await started.exited;
  }
}

/** The app decides how many processes there are. */
const MAX_PROCESSES = 256;

/**
 * Translates process ids inside a container to ids on this machine. Only processes below the container's first process
 * are considered, so an app cannot name another app's.
 */
class HostPids {
  readonly #known = new Map<number, number>();
  /** The container's first process; 0 until it is known. */
  first = 0;

  /** Returns 0 for an unknown process. */
  of(inside: number): number {
    const known = this.#known.get(inside);
    if (known !== undefined && innermost(known) === inside) return known;
    if (this.first === 0) return 0;
    const found = this.#search(inside);
    if (found === 0) this.#known.delete(inside);
    else this.#known.set(inside, found);
    return found;
  }

  #search(inside: number): number {
    if (innermost(this.first) === inside) return this.first;
    let left = MAX_PROCESSES;
    for (const pid of nearestBelow(this.first)) {
      if (innermost(pid) === inside) return pid;
      if (--left === 0) break;
    }
    return 0;
  }
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
