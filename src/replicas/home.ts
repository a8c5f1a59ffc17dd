import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import path from "node:path";
import { randomTicket } from "../kit/ids.ts";

export const CONNECTION_KINDS = ["wire", "control", "stdout", "stderr", "template"] as const;
export type ConnectionKind = (typeof CONNECTION_KINDS)[number];

/** Takes a connection that showed its ticket; nothing of it has been read but the first line. */
export type Receive = (kind: ConnectionKind, socket: Socket) => void;

const PREFACE = /^millrace 1 (wire|control|stdout|stderr|template) ([0-9a-f]{32})$/;
const PREFACE_BYTES = 128;
const PREFACE_TIMEOUT_MS = 10_000;

/** Where replicas call home: one socket for all of them, a one-time ticket for each connection. */
export class Home {
  readonly address: string;
  readonly #server: Server;
  readonly #tickets = new Map<string, { receive: Receive; used: Set<ConnectionKind> }>();
  readonly #sockets = new Set<Socket>();

  private constructor(address: string, server: Server) {
    this.address = address;
    this.#server = server;
    server.on("connection", (socket) => this.#greet(socket));
  }

  /** Listens on a unix socket in `runtimeDir`, which only the service's own user can enter. */
  static async open(runtimeDir: string): Promise<Home> {
    await mkdir(runtimeDir, { recursive: true, mode: 0o700 });
    await chmod(runtimeDir, 0o700);
    const address = path.join(runtimeDir, "home.sock");
    await rm(address, { force: true });
    const server = createServer();
    const home = new Home(address, server);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(address, 4096, resolve);
    });
    return home;
  }

  /** A ticket for one process; each kind of connection may show it once, until `forget`. */
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
    await new Promise((resolve) => this.#server.close(resolve));
    await rm(this.address, { force: true });
  }

  #greet(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.setTimeout(PREFACE_TIMEOUT_MS, () => socket.destroy());
    let seen = Buffer.alloc(0);
    const onData = (data: Buffer): void => {
      seen = Buffer.concat([seen, data]);
      const end = seen.indexOf(0x0a);
      if (end === -1) {
        if (seen.length > PREFACE_BYTES) socket.destroy();
        return;
      }
      socket.off("data", onData);
      socket.pause();
      socket.setTimeout(0);
      if (end + 1 < seen.length) socket.unshift(seen.subarray(end + 1));
      this.#admit(socket, seen.toString("latin1", 0, Math.min(end, PREFACE_BYTES)));
    };
    socket.on("data", onData);
  }

  #admit(socket: Socket, preface: string): void {
    const [, kind, ticket = ""] = PREFACE.exec(preface) ?? [];
    const known = this.#tickets.get(ticket);
    if (!known || known.used.has(kind as ConnectionKind)) {
      socket.destroy();
      return;
    }
    known.used.add(kind as ConnectionKind);
    known.receive(kind as ConnectionKind, socket);
  }
}
