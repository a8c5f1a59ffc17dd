import type { Socket } from "node:net";
import path from "node:path";
import { pythonOfVersion } from "../../host/host-pythons.ts";
import type { PortRange } from "../../config/address-readers.ts";
import type { Rung } from "../../host/walls/rung.ts";
import type { Clock } from "../../kit/clock.ts";
import type { InitFailure, ReplicaStart, Seat, SeatOwner, Started, Workload } from "../engine.ts";
import type { Home } from "../home.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import { foldersOf } from "./folders.ts";
import type { IdleTemplates } from "./idle-templates.ts";
import type { Spawn, StartedProcess, Tickets } from "./spawn.ts";
import { startLater } from "./start-later.ts";
import { TemplateLine } from "./template-line.ts";
import { missingVersion } from "./what-is-missing.ts";

/** What of a machine its seats have to know. */
export type ProcessHost = {
  /** The interpreter for apps that ask for no other. */
  readonly python: string;
  /** Where bundles, environments and storage are. */
  readonly dataDir: string;
  /** What apps live behind; null for nothing. */
  readonly rung: Rung | null;
  /** For apps that are servers of their own. */
  readonly serverPorts: PortRange;
  readonly clock: Clock;
};

/** What the seats of a machine share. */
export type SeatParts = ProcessHost & { readonly idle: IdleTemplates; readonly spawn: Spawn };

/**
 * A seat on this machine. Its first start makes a template, and all its replicas are forks of that; a template that
 * may not fork becomes the replica it was started for.
 */
export class ProcessSeat implements Seat {
  readonly #parts: SeatParts;
  readonly #workload: Workload;
  readonly #keepMs: number;
  readonly #home: Home;
  readonly #owner: SeatOwner;
  /** The template, or the one replica. */
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
    const logs: Socket[] = [];
    const owner = this.#owner;
    const { projectId } = this.#workload;
    const ticket = this.#home.expect((kind, socket, pid) => {
      if (kind === "template") line.template.attach(socket, pid);
      else if (kind === "stdout" || kind === "stderr") {
        logs.push(socket);
        readLogLines(socket, kind, (text) => owner.onLog(text), { owner: projectId }).catch(
          (error: unknown) => owner.onError(error),
        );
      } else socket.destroy();
    });
    const process = this.#spawn({ template: ticket, replica: replicaTicket });
    const close = (): void => logs.forEach((socket) => socket.destroy());
    void process.exited.then(() => clock.after(LAST_LINES_MS, close));
    const line: TemplateLine = new TemplateLine(process, clock, idle, this.#keepMs, {
      ...owner,
      onReady: () => this.#home.forget(ticket),
    });
    return line;
  }

  #spawn(tickets: Tickets): StartedProcess {
    const { python: own, dataDir, rung, spawn, clock } = this.#parts;
    const workload = this.#workload;
    const { address } = this.#home;
    const { pythonVersion } = workload;
    const folders = foldersOf(workload, dataDir);
    const walls = rung && { rung, python: own, dataDir };
    const start = (python: string) =>
      spawn({ python, workload, folders, walls, address, tickets }, clock, this.#owner);
    const process =
      folders.environment !== null
        ? start(path.join(folders.environment, "bin", "python"))
        : pythonVersion === null
          ? start(own)
          : startLater(findVersion(pythonVersion, own), start);
    this.#process = process;
    void process.exited.then(() => this.#owner.onEnded());
    return process;
  }
}

async function findVersion(version: string, own: string): Promise<string | InitFailure> {
  const found = await pythonOfVersion(version, own, process.env["PATH"] ?? "");
  return found?.path ?? missingVersion(version);
}
