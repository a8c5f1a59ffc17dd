import type { Socket } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../kit/clock.ts";
import type { InitFailure, LaunchSpec, Launcher, LauncherEvents, Started } from "../engine.ts";
import type { Home } from "../home.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import { pythonOfVersion } from "./host-pythons.ts";
import type { IdleTemplates } from "./idle-templates.ts";
import type { Spawn, StartedProcess, Tickets } from "./spawn.ts";
import { startLater } from "./start-later.ts";
import { TemplateLine } from "./template-line.ts";
import { missingVersion } from "./what-is-missing.ts";

const NEVER_STARTED: Started = {
  exited: Promise.resolve({ detail: "stopped before it started", initFailure: null }),
  kill: () => {},
  vitals: () => null,
};

/** What the launchers of a machine share. */
export type LauncherParts = {
  readonly python: string;
  readonly clock: Clock;
  readonly idle: IdleTemplates;
  readonly spawn: Spawn;
};

/**
 * Starts one version's replicas: the first start makes a template, later ones are forks of it. A template
 * that may not fork becomes the replica it was started for, and from then on replicas start the ordinary
 * way.
 */
export class ProcessLauncher implements Launcher {
  readonly #parts: LauncherParts;
  readonly #home: Home;
  readonly #events: LauncherEvents;
  readonly #processes = new Set<Started>();
  #spec: LaunchSpec;
  #forks: boolean;
  #isClosed = false;
  #line: TemplateLine | null = null;

  constructor(parts: LauncherParts, spec: LaunchSpec, home: Home, events: LauncherEvents) {
    this.#parts = parts;
    this.#spec = spec;
    this.#home = home;
    this.#events = events;
    this.#forks = spec.mayFork;
  }

  start(replicaId: string, ticket: string): Started {
    if (this.#isClosed) return NEVER_STARTED;
    if (!this.#forks) return this.#spawn({ replica: ticket });
    this.#line ??= this.#newLine(ticket);
    return this.#line.start(replicaId, ticket);
  }

  update(spec: LaunchSpec): void {
    const { templateKeepMs } = spec;
    const isSame = isDeepStrictEqual({ ...this.#spec, templateKeepMs }, spec);
    this.#spec = spec;
    if (isSame) {
      this.#line?.keepFor(templateKeepMs);
      return;
    }
    const line = this.#line;
    this.#line = null;
    line?.detach();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#line?.stop();
    const processes = [...this.#processes];
    for (const process of processes) process.kill();
    await Promise.all(processes.map((process) => process.exited));
  }

  #newLine(replicaTicket: string): TemplateLine {
    const { clock, idle } = this.#parts;
    const { owner } = this.#spec;
    const logs: Socket[] = [];
    const ticket = this.#home.expect((kind, socket) => {
      if (kind === "template") line.template.attach(socket);
      else if (kind === "stdout" || kind === "stderr") {
        logs.push(socket);
        readLogLines(socket, kind, (text) => this.#events.onLog(text), { owner }).catch((error: unknown) =>
          this.#events.onError(error),
        );
      } else socket.destroy();
    });
    const spec = this.#spec;
    const process = this.#spawn({ template: ticket, replica: replicaTicket });
    const close = (): void => logs.forEach((socket) => socket.destroy());
    void process.exited.then(() => clock.after(LAST_LINES_MS, close));
    const line: TemplateLine = new TemplateLine(process, clock, idle, spec.templateKeepMs, {
      onReady: () => this.#home.forget(ticket),
      onOrdinary: () => (this.#forks = false),
      spawn: (replica) => this.#spawn({ replica }, spec),
      startElsewhere: (id, replica) => this.start(id, replica),
      onOver: () => {
        if (this.#line === line) this.#line = null;
      },
      onFault: (fault) => this.#events.onFault(fault),
      onSilence: (silence) => this.#events.onSilence(silence),
      onError: (error) => this.#events.onError(error),
    });
    return line;
  }

  #spawn(tickets: Tickets, spec = this.#spec): StartedProcess {
    const { python, spawn, clock } = this.#parts;
    const { address } = this.#home;
    const { pythonVersion } = spec;
    const start = (path: string) => spawn(path, spec, address, tickets, clock, this.#events);
    const process =
      spec.python !== null || pythonVersion === null
        ? start(spec.python ?? python)
        : startLater(findVersion(pythonVersion, python), start);
    this.#processes.add(process);
    void process.exited.then(() => this.#processes.delete(process));
    return process;
  }
}

async function findVersion(version: string, own: string): Promise<string | InitFailure> {
  const found = await pythonOfVersion(version, own, process.env["PATH"] ?? "");
  return found?.path ?? missingVersion(version);
}
