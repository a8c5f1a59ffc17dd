import type { AppPython } from "../../host/app-python.ts";
import type { Exit, InitFailure, ReplicaStart, Seat, SeatOwner, Started, Workload } from "../engine.ts";
import type { Home } from "../home.ts";
import { LogSockets } from "../log-lines.ts";
import type { ProcessHost } from "../local/host.ts";
import { heldStart } from "../local/start-held.ts";
import { type IdleTemplates, TemplateLine } from "./template-line.ts";
import { deferred, type Spawn, type StartedProcess, type Tickets } from "../local/spawn.ts";

/** What all seats of a machine share. */
type SeatParts = ProcessHost & {
  readonly idle: IdleTemplates;
  readonly spawn: Spawn;
  /** The interpreter of an app, or why it cannot run here. */
  readonly interpreterOf: (workload: Workload) => AppPython | Promise<AppPython | InitFailure>;
};

/**
 * A seat with one template, which is started with the first replica and forks all replicas. A template that may not
 * fork becomes the replica it was started for.
 */
export class ProcessSeat implements Seat {
  readonly #parts: SeatParts;
  readonly #workload: Workload;
  readonly #keepMs: number;
  readonly #home: Home;
  readonly #owner: SeatOwner;
  /** The template, or the only replica. */
  #process: StartedProcess | null = null;
  #line: TemplateLine | null = null;

  constructor(parts: SeatParts, workload: Workload, keepMs: number, home: Home, owner: SeatOwner) {
    this.#parts = parts;
    this.#workload = workload;
    this.#keepMs = keepMs;
    this.#home = home;
    this.#owner = owner;
  }

  start(replica: ReplicaStart): Started {
    if (!this.#workload.mayFork) return this.#spawn({ replica: replica.ticket });
    this.#line ??= this.#newLine(replica.ticket);
    return this.#line.start(replica);
  }

  keepFor(keepMs: number): void {
    this.#line?.keepFor(keepMs);
  }

  leave(): void {
    this.#line?.detach();
  }

  async close(): Promise<void> {
    this.#line?.stop();
    this.#process?.kill();
    await this.#process?.exited;
  }

  #newLine(replicaTicket: string): TemplateLine {
    const { clock, idle } = this.#parts;
    const owner = this.#owner;
    const logs = new LogSockets(this.#workload.projectId, owner);
    const ticket = this.#home.expect((kind, socket, pid) => {
      if (kind === "template") line.template.attach(socket, pid);
      else if (!logs.take(kind, socket)) socket.destroy();
    });
    const process = this.#spawn({ template: ticket, replica: replicaTicket });
    void process.exited.then(({ isLeft }) => logs.close(isLeft ? null : clock));
    const line: TemplateLine = new TemplateLine(process, clock, idle, this.#keepMs, {
      ...owner,
      onReady: () => this.#home.forget(ticket),
    });
    return line;
  }

  #spawn(tickets: Tickets): StartedProcess {
    const { spawn, clock, interpreterOf } = this.#parts;
    const workload = this.#workload;
    const { address } = this.#home;
    const start = (python: AppPython) =>
      spawn({ ...heldStart(this.#parts, workload, python), address, tickets }, clock, this.#owner);
    const python = interpreterOf(workload);
    const process = "program" in python ? start(python) : startLater(python, start);
    this.#process = process;
    void process.exited.then(() => this.#owner.onEnded());
    return process;
  }
}

/** A process that starts as soon as its interpreter is found. If there is none, it ends with that as the reason. */
function startLater(
  found: Promise<AppPython | InitFailure>,
  start: (python: AppPython) => StartedProcess,
): StartedProcess {
  let begun: StartedProcess | null = null;
  let isKilled = false;
  const exited = found.then(async (python): Promise<Exit> => {
    if (isKilled) return { detail: "stopped before it started", initFailure: null };
    if (!("program" in python)) return { detail: python.message, initFailure: python };
    begun = start(python);
    return await begun.exited;
  });
  const kill = (): void => {
    isKilled = true;
    begun?.kill();
  };
  return deferred(() => begun, { exited, kill });
}
