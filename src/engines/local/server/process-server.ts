import type { AppPython } from "../../../host/app-python.ts";
import type { Exit, ServerCommand, ServerEvents, ServerPlace } from "../../engine.ts";
import type { StartedServer, Usage, Workload } from "../../engine.ts";
import type { Agent } from "../agent.ts";
import { appInterpreter } from "../app-interpreter.ts";
import { foldersOf } from "../folders.ts";
import type { ProcessHost } from "../host.ts";
import { startHeld } from "../start-held.ts";
import { cannotStart } from "../what-is-missing.ts";
import { withPort } from "./replace-port.ts";

const PYTHON_NAMES = new Set(["python", "python3"]);

/** An app's own server as a process of this machine, on a port of its own. */
export class ProcessServer implements StartedServer {
  pid = 0;
  readonly exited: Promise<Exit>;
  readonly #host: ProcessHost;
  readonly #workload: Workload;
  readonly #command: ServerCommand;
  readonly #events: ServerEvents;
  #agent: Agent | null = null;
  #isKilled = false;

  constructor(host: ProcessHost, workload: Workload, command: ServerCommand, events: ServerEvents) {
    this.#host = host;
    this.#workload = workload;
    this.#command = command;
    this.#events = events;
    this.exited = this.#live();
  }

  kill(): void {
    this.#isKilled = true;
    this.#agent?.end();
  }

  askToEnd(): void {
    this.#agent?.askToEnd();
  }

  async usage(): Promise<Usage | null> {
    return (await this.#agent?.questions.usage(0)) ?? null;
  }

  async place(): Promise<ServerPlace> {
    const found = await this.#agent?.questions.place();
    if (found) this.pid = found.pid;
    return found?.place ?? { kind: "nowhere" };
  }

  async #live(): Promise<Exit> {
    const { ports } = this.#host;
    try {
      const python = await appInterpreter(this.#host, this.#workload);
      if (!("program" in python)) return { detail: python.message, initFailure: python };
      const port = await ports.take();
      if (port === null) return { detail: NO_PORT.message, initFailure: NO_PORT };
      try {
        return await this.#run(python, port);
      } finally {
        ports.giveBack(port);
      }
    } catch (error) {
      return { detail: (error as Error).message, initFailure: null };
    }
  }

  async #run(python: AppPython, port: number): Promise<Exit> {
    if (this.#isKilled) return { detail: "stopped before it started", initFailure: null };
    const { python: agentPython, dataDir, rung, reads = [], network, storage } = this.#host;
    const { limits = null, clock } = this.#host;
    const workload = this.#workload;
    const folders = foldersOf(workload, dataDir);
    const { entrypoint, port: declared } = this.#command;
    const [program = "", ...args] = withPort(entrypoint, declared, port);
    const user = storage.userOf(workload.projectId);
    const walls = rung && { rung, dataDir, reads, network, user };
    const started = startHeld(
      { agentPython, python, workload, folders, walls, limits },
      {
        // The host may have it under another name, and the app's own version matters.
        program: PYTHON_NAMES.has(program) ? python.program : program,
        args,
        order: null,
        // It does not call home.
        home: null,
        // After the app's own: it is our port, whatever a secret says.
        fixed: { PORT: String(port) },
        server: { own: port, declared },
      },
      clock,
      this.#events,
    );
    if (!("agent" in started)) return started;
    this.#agent = started.agent;
    return await started.exited;
  }
}

const NO_PORT = cannotStart("every port for servers (21000 to 24999) is in use");
