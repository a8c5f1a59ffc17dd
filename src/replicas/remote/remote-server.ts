import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Exit, ServerCommand, ServerEvents, ServerPlace } from "../engine.ts";
import type { StartedServer, Usage, Workload } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import { seatFor } from "./find-seat.ts";
import type { FoundSeat } from "./find-seat.ts";
import { refused, whatIsMissing } from "./refusals.ts";
import type { RemoteParts } from "./spawn-remote.ts";

const PORT_VARIABLE = /\$(?:PORT\b|\{PORT\})/g;
/** How long the agent may take to connect the two. */
const DIAL_MS = 10_000;

/**
 * An app's own server in a seat elsewhere, on the port that its author wrote. Whoever connects to a socket of this
 * machine is connected with it: the agent is asked to dial, and calls home by TLS.
 */
class RemoteServer implements StartedServer {
  readonly pid = 0;
  readonly exited: Promise<Exit>;
  readonly leaving: Promise<void>;
  readonly #parts: RemoteParts;
  readonly #clock: Clock;
  readonly #events: ServerEvents;
  readonly #seat: FoundSeat;
  readonly #path: string;
  readonly #logTicket: string;
  readonly #logs: Socket[] = [];
  #way: Promise<Server> | null = null;
  #isListening = false;

  constructor(
    parts: RemoteParts,
    workload: Workload,
    { entrypoint, port }: ServerCommand,
    clock: Clock,
    events: ServerEvents,
  ) {
    this.#parts = parts;
    this.#clock = clock;
    this.#events = events;
    const { home } = parts.listener;
    this.#logTicket = home.expect((kind, socket) => this.#readLog(kind, socket, workload.projectId));
    const command = entrypoint.map((word) => word.replace(PORT_VARIABLE, String(port)));
    this.#seat = seatFor(
      parts,
      { workload, order: {}, server: { command, port, ticket: this.#logTicket } },
      clock,
      { ...events, onListening: (isListening) => (this.#isListening = isListening) },
    );
    this.#path = path.join(path.dirname(home.address), `s-${randomName(12)}`);
    const { process } = this.#seat;
    this.leaving = process.leaving ?? new Promise(() => {});
    this.exited = this.#outlive(process.exited);
  }

  kill(): void {
    this.#seat.process.kill();
  }

  askToEnd(): void {
    // The next service goes on with one that is left to it.
    if (this.#parts.isLeft?.()) this.kill();
    else this.#seat.say({ ask: {} });
  }

  async usage(): Promise<Usage | null> {
    return await this.#seat.process.usage(0);
  }

  async place(): Promise<ServerPlace> {
    if (!this.#isListening) return { kind: "nowhere" };
    await (this.#way ??= this.#open());
    return { kind: "listening", host: "", port: 0, path: this.#path, isOpen: false, isFixed: false };
  }

  async #open(): Promise<Server> {
    const way = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (local) => this.#dial(local));
    await new Promise<void>((resolve, reject) => {
      way.once("error", reject);
      way.listen(this.#path, resolve);
    });
    way.on("error", () => {});
    return way;
  }

  /** Has the agent connect this with the server. */
  #dial(local: Socket): void {
    const { home } = this.#parts.listener;
    local.on("error", () => local.destroy());
    const late = this.#clock.after(DIAL_MS, () => local.destroy());
    const ticket = home.expect((_, remote) => {
      late.cancel();
      home.forget(ticket);
      local.pipe(remote).pipe(local);
      // Either may be gone without having ended. What has come from there is still delivered here.
      local.once("close", () => remote.destroy());
      remote.once("close", () => (remote.readableEnded ? local.end(() => local.destroy()) : local.destroy()));
    });
    local.once("close", () => home.forget(ticket));
    this.#seat.say({ dial: { ticket } });
  }

  #readLog(kind: string, socket: Socket, owner: string): void {
    if (kind !== "stdout" && kind !== "stderr") {
      socket.destroy();
      return;
    }
    this.#logs.push(socket);
    readLogLines(socket, kind, (line) => this.#events.onLog(line), { owner }).catch((error: unknown) =>
      this.#events.onError(error),
    );
  }

  async #outlive(exited: Promise<Exit>): Promise<Exit> {
    const exit = await exited;
    const { home } = this.#parts.listener;
    home.forget(this.#logTicket);
    this.#isListening = false;
    (await this.#way)?.close();
    await rm(this.#path, { force: true });
    const close = (): void => this.#logs.forEach((socket) => socket.destroy());
    if (exit.isLeft) close();
    else this.#clock.after(LAST_LINES_MS, close);
    return exit;
  }
}

/** Starts an app's own server in a seat elsewhere; one that has ended where it cannot be started. */
export function startRemoteServer(
  parts: RemoteParts,
  workload: Workload,
  clock: Clock,
  events: ServerEvents,
): StartedServer {
  const missing = workload.server ? whatIsMissing(workload) : "it has no server of its own";
  if (missing === null && workload.server)
    return new RemoteServer(parts, workload, workload.server, clock, events);
  return {
    pid: 0,
    exited: Promise.resolve(refused(missing ?? "")),
    kill: () => {},
    askToEnd: () => {},
    place: async () => ({ kind: "nowhere" }),
    usage: async () => null,
  };
}
