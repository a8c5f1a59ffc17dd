import type { AppPython } from "../../../host/app-python.ts";
import { askToEnd, wardBelow } from "../../../host/ask-to-end.ts";
import { heldBelow, listenersSeenBy } from "../../../host/listeners.ts";
import type { Listener } from "../../../host/listeners.ts";
import type { Kept } from "../../../host/start-kept.ts";
import type { Exit, InitFailure, ServerCommand, ServerEvents, ServerPlace } from "../../engine.ts";
import type { StartedServer, Usage, Workload } from "../../engine.ts";
import { appInterpreter } from "../app-interpreter.ts";
import { foldersOf } from "../folders.ts";
import type { ProcessHost } from "../host.ts";
import { usageOf } from "../usage.ts";
import { withPort } from "./replace-port.ts";
import { keepersAbove, startServer } from "./start-server.ts";

/** An app's own server as a process of this machine, on a port of its own. */
export class ProcessServer implements StartedServer {
  readonly exited: Promise<Exit>;
  readonly #host: ProcessHost;
  readonly #workload: Workload;
  readonly #command: ServerCommand;
  readonly #events: ServerEvents;
  #kept: Kept | null = null;
  #port = 0;
  #isKilled = false;
  /** Sockets that were found to be its own. A socket never changes hands between apps. */
  #own: ReadonlySet<string> = new Set();

  constructor(host: ProcessHost, workload: Workload, command: ServerCommand, events: ServerEvents) {
    this.#host = host;
    this.#workload = workload;
    this.#command = command;
    this.#events = events;
    this.exited = this.#live();
  }

  get pid(): number {
    return this.#kept ? wardBelow(this.#kept.pid, keepersAbove(this.#host.rung)) : 0;
  }

  kill(): void {
    this.#isKilled = true;
    this.#kept?.end();
  }

  askToEnd(): void {
    askToEnd(this.pid);
  }

  async usage(): Promise<Usage | null> {
    const ward = this.pid;
    return ward > 0 && this.#kept ? await usageOf(ward, this.#kept.pid) : null;
  }

  async place(): Promise<ServerPlace> {
    const kept = this.#kept;
    if (!kept) return { kind: "nowhere" };
    const authored = this.#command.port;
    const all = await listenersSeenBy(kept.pid);
    const onOwnPort = all.filter(({ port }) => port === this.#port);
    if (onOwnPort.length > 0) return await this.#judge(kept, onOwnPort, false);
    const onAuthored = all.filter(({ port }) => port === authored);
    // Somebody else may have that port, and this server has not come so far yet.
    const place = onAuthored.length > 0 ? await this.#judge(kept, onAuthored, true) : null;
    return place?.kind === "listening" ? place : { kind: "nowhere" };
  }

  /** Whether all who listen there are this server's: of two that share a port, either may get a connection. */
  async #judge(kept: Kept, listeners: readonly Listener[], isFixed: boolean): Promise<ServerPlace> {
    const isOwn = ({ inode }: Listener): boolean => this.#own.has(inode);
    const [first] = listeners;
    if (!listeners.every(isOwn))
      this.#own = await heldBelow(kept.pid, new Set(listeners.map(({ inode }) => inode)));
    if (!first || !listeners.every(isOwn)) return { kind: "taken", port: first?.port ?? 0 };
    const { host, port } = first;
    return { kind: "listening", host, port, isOpen: listeners.some(({ isOpen }) => isOpen), isFixed };
  }

  async #live(): Promise<Exit> {
    const { ports } = this.#host;
    try {
      const python = await appInterpreter(this.#host, this.#workload);
      if (!("program" in python)) return { detail: python.message, initFailure: python };
      const port = await ports.take();
      if (port === null) return { detail: NO_PORT.message, initFailure: NO_PORT };
      this.#port = port;
      try {
        return await this.#run(python);
      } finally {
        ports.giveBack(port);
      }
    } catch (error) {
      return { detail: (error as Error).message, initFailure: null };
    }
  }

  async #run(python: AppPython): Promise<Exit> {
    if (this.#isKilled) return { detail: "stopped before it started", initFailure: null };
    const { python: keeperPython, dataDir, rung, reads = [], network, storage } = this.#host;
    const { limits = null, clock } = this.#host;
    const workload = this.#workload;
    const folders = foldersOf(workload, dataDir);
    const { entrypoint, port: declared } = this.#command;
    const port = this.#port;
    const command = withPort(entrypoint, declared, port);
    const user = storage.userOf(workload.projectId);
    const walls = rung && { rung, python: keeperPython, dataDir, reads, network, user };
    const started = startServer(
      { keeperPython, python, command, port, declared, workload, folders, walls, limits },
      clock,
      this.#events,
    );
    if (!("kept" in started)) return started;
    this.#kept = started.kept;
    return await started.exited;
  }
}

function failure(message: string): InitFailure {
  return { message, traceback: message };
}

const NO_PORT = failure(
  "The app cannot start: every port for servers is taken. Set MILLRACE_SERVER_PORTS to a larger range.",
);
