import type { Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { within } from "../../kit/within.ts";
import type { Exit, InitFailure, Started } from "../engine.ts";
import { parseTemplateMessage } from "../messages.ts";
import { KEEPER_GRACE_MS } from "./end-keeper.ts";
import { describeExit } from "./spawn.ts";

const LAST_WORDS_MS = 500;

/** What a template's owner learns from it. */
export type TemplateEvents = {
  /** It has imported the app; `forks` says whether it may give birth or serves itself. */
  onReady(forks: boolean): void;
  /** Its last replica has ended. */
  onIdle(): void;
  /** Its process is gone, and with it every replica it forked. */
  onGone(exit: Exit): void;
};

/** A process that has imported the app and forks replicas of it. */
export class Template {
  readonly #process: Started;
  readonly #clock: Clock;
  readonly #events: TemplateEvents;
  readonly #children = new Map<string, (exit: Exit) => void>();
  /** Known once it is ready. */
  pid = 0;
  #home: Socket | null = null;
  #initFailure: InitFailure | null = null;
  readonly #homeClosed = Promise.withResolvers<void>();

  constructor(process: Started, clock: Clock, events: TemplateEvents) {
    this.#process = process;
    this.#clock = clock;
    this.#events = events;
    void this.#outlive();
  }

  get hasChildren(): boolean {
    return this.#children.size > 0;
  }

  /** Takes the connection the template talks on. */
  attach(socket: Socket): void {
    this.#home = socket;
    socket.once("close", () => this.#homeClosed.resolve());
    let rest = "";
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(line);
    });
    socket.resume();
  }

  /** Forks one replica, which calls home with `ticket`. */
  fork(replicaId: string, ticket: string): Started {
    const exited = new Promise<Exit>((resolve) => this.#children.set(replicaId, resolve));
    this.#say({ fork: { id: replicaId, ticket } });
    let isAsked = false;
    const kill = (): void => {
      if (isAsked) return;
      isAsked = true;
      this.#end(replicaId, exited);
    };
    return { exited, kill };
  }

  /** Ends it and everything below it. */
  async close(): Promise<void> {
    this.#process.kill();
    await this.#process.exited;
  }

  /** By its keeper, then past the keeper, then, from a template that does not obey, with the template itself. */
  #end(replicaId: string, exited: Promise<Exit>): void {
    this.#say({ kill: replicaId });
    const steps = [
      this.#clock.after(KEEPER_GRACE_MS, () => this.#say({ end: replicaId })),
      this.#clock.after(2 * KEEPER_GRACE_MS, () => this.#process.kill()),
    ];
    void exited.finally(() => {
      for (const step of steps) step.cancel();
    });
  }

  #say(message: object): void {
    this.#home?.write(`${JSON.stringify(message)}\n`);
  }

  #hear(line: string): void {
    const message = parseTemplateMessage(line);
    if ("ready" in message) {
      this.pid = message.ready.pid;
      this.#events.onReady(message.ready.forks);
    } else if ("failed" in message) {
      this.#initFailure = message.failed;
    } else {
      const resolve = this.#children.get(message.exited.id);
      this.#children.delete(message.exited.id);
      resolve?.({ detail: describeExit(message.exited.code, null), initFailure: null });
      if (this.#children.size === 0) this.#events.onIdle();
    }
  }

  async #outlive(): Promise<void> {
    const exit = await this.#process.exited;
    // Why it could not import the app may still be unread.
    await within(LAST_WORDS_MS, this.#homeClosed.promise);
    this.#leave(exit);
  }

  #leave(exit: Exit): void {
    for (const resolve of this.#children.values())
      resolve({ detail: "its template ended", initFailure: null });
    this.#children.clear();
    this.#events.onGone({ ...exit, initFailure: this.#initFailure });
  }
}
