import { rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import type { Exit, ServerCommand, ServerEvents, ServerPlace } from "../engine.ts";
import type { StartedServer, Usage, Workload } from "../engine.ts";
import { LogSockets } from "../log-lines.ts";
import { withPort, withPortVariable } from "../server/ports.ts";
import type { Ports } from "../server/ports.ts";
import { startServer } from "../server/start-server.ts";
import { seatFor } from "./spawn-remote.ts";
import type { FoundSeat } from "./spawn-remote.ts";
import { refused, whatIsMissing } from "./remote-seat.ts";
import type { RemoteParts } from "./session.ts";

/** How long the agent may take to open a connection to the server. */
const DIAL_MS = 10_000;

/** Starts an app's own server in a remote seat: on its author's port, or on one of its own if apps share machines. */
export function startRemoteServer(
  parts: RemoteParts,
  workload: Workload,
  ports: Ports,
  clock: Clock,
  events: ServerEvents,
): StartedServer {
  const { server } = workload;
  const authored = { take: async () => server?.port ?? 0, giveBack: () => {} };
  return startServer(parts.place.isShared ? ports.remote : authored, (port) => {
    const missing = whatIsMissing(workload);
    if (missing !== null) return refused(missing);
    if (!server) return refused("it has no server of its own");
    return new RemoteServer(parts, workload, server, port, clock, events);
  });
}

/** A server in a remote seat. The service connects to a local socket, and the agent forwards to the server over TLS. */
class RemoteServer implements StartedServer {
  readonly pid = 0;
  readonly exited: Promise<Exit>;
  readonly leaving: Promise<void>;
  readonly #parts: RemoteParts;
  readonly #clock: Clock;
  readonly #seat: FoundSeat;
  readonly #path: string;
  #listener: Promise<Server> | null = null;

  constructor(
    parts: RemoteParts,
    workload: Workload,
    { entrypoint, port: authored }: ServerCommand,
    port: number,
    clock: Clock,
    events: ServerEvents,
  ) {
    this.#parts = parts;
    this.#clock = clock;
    const { home } = parts.listener;
    const logs = new LogSockets(workload.projectId, events);
    const ticket = home.expect((kind, socket) => void (logs.take(kind, socket) || socket.destroy()));
    const command = parts.place.isShared
      ? withPort(entrypoint, authored, port)
      : withPortVariable(entrypoint, authored);
    this.#seat = seatFor(
      parts,
      { workload, order: {}, server: { command, port, authored, ticket } },
      clock,
      events,
    );
    this.#path = path.join(path.dirname(home.address), `s-${randomName(12)}`);
    const { process } = this.#seat;
    this.leaving = process.leaving ?? new Promise(() => {});
    this.exited = process.exited.then(async (exit) => {
      home.forget(ticket);
      (await this.#listener)?.close();
      await rm(this.#path, { force: true });
      logs.close(exit.isLeft ? null : clock);
      return exit;
    });
  }

  kill(): void {
    this.#seat.process.kill();
  }

  askToEnd(): void {
    // A seat that is left to the next service goes on running.
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
    await (this.#listener ??= this.#listen());
    // A machine that is not shared cannot be reached by other apps.
    const isOpen = place.isOpen && this.#parts.place.isShared === true;
    return { ...place, host: "", path: this.#path, isOpen };
  }

  async #listen(): Promise<Server> {
    const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (local) =>
      this.#dial(local),
    );
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject);
      listener.listen(this.#path, resolve);
    });
    listener.on("error", () => {});
    return listener;
  }

  /** Has the agent connect to the server, and joins the two connections. */
  #dial(local: Socket): void {
    const { home } = this.#parts.listener;
    local.on("error", () => local.destroy());
    const late = this.#clock.after(DIAL_MS, () => local.destroy());
    const ticket = home.expect((_, remote) => {
      late.cancel();
      home.forget(ticket);
      local.pipe(remote).pipe(local);
      // Either side may close without having ended. Data that has arrived is still delivered locally.
      local.once("close", () => remote.destroy());
      remote.once("close", () => (remote.readableEnded ? local.end(() => local.destroy()) : local.destroy()));
    });
    local.once("close", () => home.forget(ticket));
    this.#seat.say({ dial: { ticket } });
  }
}
