import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Exit, ServerCommand, ServerEvents, ServerPlace } from "../engine.ts";
import type { StartedServer, Usage, Workload } from "../engine.ts";
import { LAST_LINES_MS, readLogLines } from "../log-lines.ts";
import type { Ports } from "../local/server/ports.ts";
import { withPort } from "../local/server/replace-port.ts";
import { seatFor } from "./spawn-remote.ts";
import type { FoundSeat } from "./spawn-remote.ts";
import { refused, whatIsMissing } from "./remote-seat.ts";
import type { RemoteParts } from "./session.ts";

const PORT_VARIABLE = /\$(?:PORT\b|\{PORT\})/g;
/** How long the agent may take to connect the two. */
const DIAL_MS = 10_000;

/** A port that no other server of this service has anywhere; null where it has its author's. */
type OwnPort = { readonly port: number | null; readonly giveBack: () => void };

/**
 * An app's own server in a seat elsewhere, on the port that its author wrote or, where others use its machine too, on one
 * of its own. Whoever connects to a socket of this machine is connected with it: the agent is asked to dial, and calls
 * home by TLS.
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
  readonly #giveBack: () => void;

  constructor(
    parts: RemoteParts,
    workload: Workload,
    { entrypoint, port: authored }: ServerCommand,
    { port, giveBack }: OwnPort,
    clock: Clock,
    events: ServerEvents,
  ) {
    this.#parts = parts;
    this.#clock = clock;
    this.#events = events;
    const { home } = parts.listener;
    this.#logTicket = home.expect((kind, socket) => this.#readLog(kind, socket, workload.projectId));
    this.#giveBack = giveBack;
    const command =
      port === null
        ? entrypoint.map((word) => word.replace(PORT_VARIABLE, String(authored)))
        : withPort(entrypoint, authored, port);
    this.#seat = seatFor(
      parts,
      { workload, order: {}, server: { command, port: port ?? authored, authored, ticket: this.#logTicket } },
      clock,
      events,
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

  obstacle(): string | null {
    return this.#seat.process.obstacle?.() ?? null;
  }

  async place(): Promise<ServerPlace> {
    const place = await this.#seat.place();
    if (place.kind !== "listening") return place;
    await (this.#way ??= this.#open());
    // In a place of its own nobody else gets as far as it.
    const isOpen = place.isOpen && this.#parts.place.isShared === true;
    return { ...place, host: "", path: this.#path, isOpen };
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
    this.#giveBack();
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
  ports: Ports,
  clock: Clock,
  events: ServerEvents,
): StartedServer {
  const { isShared = false } = parts.place;
  const missing = workload.server ? whatIsMissing(workload) : "it has no server of its own";
  const port = missing === null && isShared ? ports.takeElsewhere() : null;
  const giveBack = (): void => void (port !== null && ports.giveBack(port));
  if (missing === null && workload.server && (!isShared || port !== null))
    return new RemoteServer(parts, workload, workload.server, { port, giveBack }, clock, events);
  return {
    pid: 0,
    exited: Promise.resolve(refused(missing ?? "every port for servers is in use")),
    kill: () => {},
    askToEnd: () => {},
    place: async () => ({ kind: "nowhere" }),
    usage: async () => null,
  };
}
