import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../kit/clock.ts";
import type { LaunchSpec, Launcher, Started } from "../engine.ts";
import type { Home } from "../home.ts";
import { readLogLines } from "../log-lines.ts";
import type { LogLine } from "../log-lines.ts";
import type { IdleTemplates } from "./idle-templates.ts";
import { spawnPython } from "./spawn.ts";
import type { Tickets } from "./spawn.ts";
import { TemplateLine } from "./template-line.ts";

/**
 * Starts one version's replicas: the first start makes a template, later ones are forks of it. A template
 * that may not fork becomes the replica it was started for, and from then on replicas start the ordinary
 * way.
 */
export class ProcessLauncher implements Launcher {
  readonly #python: string;
  readonly #clock: Clock;
  readonly #idle: IdleTemplates;
  readonly #home: Home;
  readonly #onLog: (line: LogLine) => void;
  readonly #processes = new Set<Started>();
  #spec: LaunchSpec;
  #forks: boolean;
  #line: TemplateLine | null = null;

  constructor(
    python: string,
    clock: Clock,
    idle: IdleTemplates,
    spec: LaunchSpec,
    home: Home,
    onLog: (line: LogLine) => void,
  ) {
    this.#python = python;
    this.#clock = clock;
    this.#idle = idle;
    this.#spec = spec;
    this.#home = home;
    this.#onLog = onLog;
    this.#forks = spec.mayFork;
  }

  start(replicaId: string, ticket: string): Started {
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
    this.#line?.stop();
    const processes = [...this.#processes];
    for (const process of processes) process.kill();
    await Promise.all(processes.map((process) => process.exited));
  }

  #newLine(replicaTicket: string): TemplateLine {
    const ticket = this.#home.expect((kind, socket) => {
      if (kind === "template") line.template.attach(socket);
      else if (kind === "stdout" || kind === "stderr") readLogLines(socket, kind, this.#onLog);
      else socket.destroy();
    });
    const spec = this.#spec;
    const process = this.#spawn({ template: ticket, replica: replicaTicket });
    const line: TemplateLine = new TemplateLine(process, this.#clock, this.#idle, spec.templateKeepMs, {
      onReady: () => this.#home.forget(ticket),
      onOrdinary: () => (this.#forks = false),
      spawn: (replica) => this.#spawn({ replica }, spec),
      onOver: () => {
        if (this.#line === line) this.#line = null;
      },
    });
    return line;
  }

  #spawn(tickets: Tickets, spec = this.#spec): Started {
    const onText = (text: string): void => {
      for (const line of text.trimEnd().split("\n"))
        this.#onLog({ stream: "stderr", text: line, runId: null });
    };
    const python = spec.python ?? this.#python;
    const process = spawnPython(python, spec, this.#home.address, tickets, this.#clock, onText);
    this.#processes.add(process);
    void process.exited.then(() => this.#processes.delete(process));
    return process;
  }
}
