import { chmod, mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import path from "node:path";
import { type Clock, systemClock } from "../kit/clock.ts";
import { GrowingBytes } from "../kit/bytes.ts";
import { randomTicket } from "../kit/ids.ts";
import { UnauthenticatedConnections } from "../kit/listener.ts";
import { once } from "node:events";

export const CONNECTION_KINDS = ["wire", "control", "stdout", "stderr", "template"] as const;
export type ConnectionKind = (typeof CONNECTION_KINDS)[number];

/** Takes a connection with a ticket. `pid` opened it, if its agent reports that; without walls an app could forge it. */
export type Receive = (kind: ConnectionKind, socket: Socket, pid: number | null) => void;

const PREFACE = /^millrace 1 (wire|control|stdout|stderr|template) ([0-9a-f]{32})(?: ([1-9][0-9]{0,9}))?$/;
const PREFACE_BYTES = 128;
/** From the connection to the end of its first line. */
const PREFACE_TIMEOUT_MS = 10_000;
/** Connections without a ticket. A harness sends its ticket at once, so the oldest connection without one is dropped. */
const MAX_STRANGERS = 256;

/** Takes a connection whose first line is not a replica's; returns false if it is unknown here too. */
export type Usher = (preface: string, socket: Socket) => boolean;

/** Another socket that leads to the same home. */
export type Door = { readonly address: string; close(): Promise<void> };

/** The socket that all replicas connect to, with a one-time ticket for each connection. */
export class Home {
  readonly address: string;
  readonly #servers = new Set<Server>();
  readonly #clock: Clock;
  readonly #tickets = new Map<string, { receive: Receive; used: Set<ConnectionKind> }>();
  readonly #sockets = new Set<Socket>();
  readonly #strangers = new UnauthenticatedConnections(MAX_STRANGERS);

  private constructor(address: string, clock: Clock) {
    this.address = address;
    this.#clock = clock;
  }

  /** Listens on a unix socket in `runtimeDir`, which only the service's own user can enter. */
  static async open(runtimeDir: string, clock: Clock = systemClock): Promise<Home> {
    await mkdir(runtimeDir, { recursive: true, mode: 0o700 });
    await chmod(runtimeDir, 0o700);
    const address = path.join(runtimeDir, "home.sock");
    await rm(address, { force: true });
    const home = new Home(address, clock);
    await home.#listen(address);
    return home;
  }

  /** Another socket in a folder of its own, for processes that see nothing else of this machine. */
  async openDoor(): Promise<Door> {
    const folder = await mkdtemp(path.join(path.dirname(this.address), "d"));
    const address = path.join(folder, "s");
    const server = await this.#listen(address);
    // The parent folder is private, and connections need a ticket.
    await chmod(folder, 0o755);
    await chmod(address, 0o666);
    return {
      address,
      close: async () => {
        this.#servers.delete(server);
        // Open connections stay open.
        server.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  get strangerCount(): number {
    return this.#strangers.size;
  }

  /** A ticket for one process; each kind of connection may use it once, until `forget`. */
  expect(receive: Receive): string {
    const ticket = randomTicket();
    this.#tickets.set(ticket, { receive, used: new Set() });
    return ticket;
  }

  forget(ticket: string): void {
    this.#tickets.delete(ticket);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) await new Promise((resolve) => server.close(resolve));
    await rm(this.address, { force: true });
  }

  async #listen(address: string): Promise<Server> {
    const server = createServer((socket) => this.welcome(socket));
    server.listen(address, 4096);
    await once(server, "listening");
    // A connection could not be accepted because descriptors ran out: the client sees that.
    server.on("error", () => {});
    this.#servers.add(server);
    return server;
  }

  /** Takes a connection, also from another listener. `onTicket` is called if it presents a valid ticket. */
  welcome(socket: Socket, usher: Usher = () => false, onTicket = (): void => {}): void {
    this.#sockets.add(socket);
    this.#strangers.add(socket, socket);
    const late = this.#clock.after(PREFACE_TIMEOUT_MS, () => socket.destroy());
    socket.on("close", () => {
      this.#sockets.delete(socket);
      late.cancel();
    });
    socket.on("error", () => socket.destroy());
    const seen = new GrowingBytes();
    const onData = (data: Buffer): void => {
      const end = data.indexOf(0x0a);
      const lineEnd = end === -1 ? data.length : end;
      if (seen.length + lineEnd > PREFACE_BYTES) {
        socket.destroy();
        return;
      }
      seen.add(data, 0, lineEnd, PREFACE_BYTES);
      if (end === -1) return;
      socket.off("data", onData);
      socket.pause();
      this.#strangers.release(socket);
      late.cancel();
      if (end + 1 < data.length) socket.unshift(data.subarray(end + 1));
      if (this.#admit(socket, seen.take().toString("latin1"), usher)) onTicket();
    };
    socket.on("data", onData);
  }

  #admit(socket: Socket, preface: string, usher: Usher): boolean {
    const [, kind, ticket = "", pid] = PREFACE.exec(preface) ?? [];
    const known = this.#tickets.get(ticket);
    if (!known || known.used.has(kind as ConnectionKind)) {
      if (kind !== undefined || !usher(preface, socket)) socket.destroy();
      return false;
    }
    known.used.add(kind as ConnectionKind);
    known.receive(kind as ConnectionKind, socket, pid === undefined ? null : Number(pid));
    return true;
  }
}
