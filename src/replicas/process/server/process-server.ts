import path from "node:path";
import { askToEnd, wardBelow } from "../../../host/ask-to-end.ts";
import { pythonOfVersion } from "../../../host/host-pythons.ts";
import { heldBelow, listenersSeenBy } from "../../../host/listeners.ts";
import type { Listener } from "../../../host/listeners.ts";
import { describeExit } from "../../../host/start-kept.ts";
import type { Kept } from "../../../host/start-kept.ts";
import type { Exit, InitFailure, ServerCommand, ServerEvents, ServerPlace } from "../../engine.ts";
import type { StartedServer, Usage, Workload } from "../../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../../log-lines.ts";
import { foldersOf } from "../folders.ts";
import type { ProcessHost } from "../seat.ts";
import { usageOf } from "../usage.ts";
import { missingVersion, whatIsMissing } from "../what-is-missing.ts";
import type { Ports } from "./ports.ts";
import { withPort } from "./replace-port.ts";
import { startServer } from "./start-server.ts";

/** The keepers above a server: behind walls, one of them is outside. */
const KEEPERS = { plain: 1, walled: 2 } as const;

/** What the servers of a machine share. */
export type ServerHost = ProcessHost & { readonly ports: Ports };

/** An app's own server as a process of this machine, on a port of its own. */
export class ProcessServer implements StartedServer {
  readonly exited: Promise<Exit>;
  readonly #host: ServerHost;
  readonly #workload: Workload;
  readonly #command: ServerCommand;
  readonly #events: ServerEvents;
  #kept: Kept | null = null;
  #port = 0;
  #isKilled = false;
  /** Sockets that were found to be its own. A socket never changes hands between apps. */
  #own: ReadonlySet<string> = new Set();

  constructor(host: ServerHost, workload: Workload, command: ServerCommand, events: ServerEvents) {
    this.#host = host;
    this.#workload = workload;
    this.#command = command;
    this.#events = events;
    this.exited = this.#live();
  }

  get pid(): number {
    const { rung } = this.#host;
    return this.#kept ? wardBelow(this.#kept.pid, rung ? KEEPERS.walled : KEEPERS.plain) : 0;
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
      const python = await this.#python();
      if (typeof python !== "string") return { detail: python.message, initFailure: python };
      const port = await ports.take();
      if (port === null) return { detail: NO_PORT.message, initFailure: NO_PORT };
      this.#port = port;
      try {
        return await this.#run(python);
      } finally {
        ports.giveBack(port);
      }
    } catch (error) {
      return { detail: reasonOf(error as NodeJS.ErrnoException), initFailure: null };
    }
  }

  async #run(python: string): Promise<Exit> {
    if (this.#isKilled) return { detail: "stopped before it started", initFailure: null };
    const { python: keeperPython, dataDir, rung, clock } = this.#host;
    const folders = foldersOf(this.#workload, dataDir);
    const { entrypoint, port: authored } = this.#command;
    const kept = startServer(
      {
        keeperPython,
        python,
        command: withPort(entrypoint, authored, this.#port),
        port: this.#port,
        workload: this.#workload,
        folders,
        walls: rung && { rung, python: keeperPython, dataDir },
      },
      clock,
    );
    this.#kept = kept;
    const events = this.#events;
    const owner = this.#workload.projectId;
    for (const name of ["stdout", "stderr"] as const)
      readLogLines(kept[name], name, (line) => events.onLog(line), { owner }).catch((error: unknown) =>
        events.onError(error),
      );
    try {
      const { code, signal } = await kept.exited;
      const initFailure = code === 0 ? null : whatIsMissing(python, folders);
      return { detail: describeExit(code, signal), initFailure };
    } finally {
      clock.after(LAST_LINES_MS, () => kept.close());
    }
  }

  /** The app's interpreter, or why there is none. */
  async #python(): Promise<string | InitFailure> {
    const { python: own, dataDir } = this.#host;
    const { pythonVersion } = this.#workload;
    const { environment } = foldersOf(this.#workload, dataDir);
    if (environment !== null) return path.join(environment, "bin", "python");
    if (pythonVersion === null) return own;
    const found = await pythonOfVersion(pythonVersion, own, process.env["PATH"] ?? "");
    return found?.path ?? missingVersion(pythonVersion);
  }
}

function failure(message: string): InitFailure {
  return { message, traceback: message };
}

const NO_PORT = failure(
  "The app cannot start: every port for servers is taken. Set MILLRACE_SERVER_PORTS to a larger range.",
);

function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  return code === "E2BIG" ? "its secrets are too large to pass as environment variables" : message;
}
