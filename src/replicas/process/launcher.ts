import type { Exit, LaunchSpec, Launcher, Started } from "../engine.ts";
import type { Home } from "../home.ts";
import { readLogLines } from "../log-lines.ts";
import type { LogLine } from "../log-lines.ts";
import type { IdleTemplates } from "./idle-templates.ts";
import { spawnPython } from "./spawn.ts";
import type { Tickets } from "./spawn.ts";
import { Template } from "./template.ts";

/** A start that waits for the template to be ready; its process does not exist yet. */
type Waiting = {
  readonly replicaId: string;
  readonly ticket: string;
  readonly begin: (started: Started) => void;
};

/**
 * Starts one version's replicas: the first start makes a template, later ones are forks of it. A template
 * that may not fork becomes the replica it was started for, and from then on replicas start the ordinary
 * way.
 *
 * none → importing → forking → none (kept too long, or died); importing → ordinary.
 */
export class ProcessLauncher implements Launcher {
  readonly #python: string;
  readonly #idle: IdleTemplates;
  readonly #spec: LaunchSpec;
  readonly #home: Home;
  readonly #onLog: (line: LogLine) => void;
  readonly #processes = new Set<Started>();
  #mode: "none" | "importing" | "forking" | "ordinary";
  #template: Template | null = null;
  #waiting: Waiting[] = [];
  #retireTimer: NodeJS.Timeout | undefined;

  constructor(
    python: string,
    idle: IdleTemplates,
    spec: LaunchSpec,
    home: Home,
    onLog: (line: LogLine) => void,
  ) {
    this.#python = python;
    this.#idle = idle;
    this.#spec = spec;
    this.#home = home;
    this.#onLog = onLog;
    this.#mode = spec.mayFork ? "none" : "ordinary";
  }

  start(replicaId: string, ticket: string): Started {
    clearTimeout(this.#retireTimer);
    if (this.#template) this.#idle.remove(this.#template.pid);
    if (this.#mode === "ordinary") return this.#spawn({ replica: ticket });
    if (this.#mode === "forking" && this.#template) return this.#template.fork(replicaId, ticket);
    const started = this.#wait(replicaId, ticket);
    if (this.#mode === "none") this.#makeTemplate(ticket);
    return started;
  }

  async close(): Promise<void> {
    clearTimeout(this.#retireTimer);
    const processes = [...this.#processes];
    for (const process of processes) process.kill();
    await Promise.all(processes.map((process) => process.exited));
  }

  #wait(replicaId: string, ticket: string): Started {
    let begun: Started | null = null;
    let resolveExit: (exit: Exit) => void = () => {};
    const exited = new Promise<Exit>((resolve) => {
      resolveExit = resolve;
    });
    const waiting: Waiting = {
      replicaId,
      ticket,
      begin: (started) => {
        begun = started;
        void started.exited.then(resolveExit);
      },
    };
    this.#waiting.push(waiting);
    const giveUp = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      resolveExit({ detail: "stopped before it started", initFailure: null });
      // Nobody waits for the import any more.
      if (this.#waiting.length === 0 && this.#mode === "importing") void this.#template?.close();
    };
    return { exited, kill: () => (begun ? begun.kill() : giveUp()) };
  }

  #makeTemplate(replicaTicket: string): void {
    this.#mode = "importing";
    const ticket = this.#home.expect((kind, socket) => {
      if (kind === "template") template.attach(socket);
      else if (kind === "stdout" || kind === "stderr") readLogLines(socket, kind, this.#onLog);
      else socket.destroy();
    });
    const process = this.#spawn({ template: ticket, replica: replicaTicket });
    const template: Template = new Template(process, {
      onReady: (forks) => {
        this.#home.forget(ticket);
        if (forks) this.#startForking(template);
        else this.#startOrdinary(process);
      },
      onIdle: () => this.#keep(template),
      onGone: (exit) => {
        this.#home.forget(ticket);
        this.#idle.remove(template.pid);
        this.#loseTemplate(template, exit);
      },
    });
    this.#template = template;
  }

  #startForking(template: Template): void {
    this.#mode = "forking";
    for (const { replicaId, ticket, begin } of this.#take()) begin(template.fork(replicaId, ticket));
  }

  /** The template's process is the first replica; the others start beside it. */
  #startOrdinary(process: Started): void {
    this.#mode = "ordinary";
    this.#template = null;
    const [first, ...others] = this.#take();
    first?.begin(process);
    for (const { ticket, begin } of others) begin(this.#spawn({ replica: ticket }));
  }

  #loseTemplate(template: Template, exit: Exit): void {
    if (this.#template !== template) return;
    this.#template = null;
    this.#mode = "none";
    for (const { begin } of this.#take()) begin({ exited: Promise.resolve(exit), kill: () => {} });
  }

  /** Without a replica a template is kept for a while, as long as there is memory for it. */
  #keep(template: Template): void {
    const retire = (): void => {
      if (this.#template !== template || template.hasChildren) return;
      this.#template = null;
      this.#mode = "none";
      void template.close();
    };
    clearTimeout(this.#retireTimer);
    this.#retireTimer = setTimeout(retire, this.#spec.templateKeepMs).unref();
    this.#idle.add(template.pid, retire);
  }

  #take(): Waiting[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  #spawn(tickets: Tickets): Started {
    const onText = (text: string): void => {
      for (const line of text.trimEnd().split("\n"))
        this.#onLog({ stream: "stderr", text: line, runId: null });
    };
    const process = spawnPython(this.#python, this.#spec, this.#home.address, tickets, onText);
    this.#processes.add(process);
    void process.exited.then(() => this.#processes.delete(process));
    return process;
  }
}
