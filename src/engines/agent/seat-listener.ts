import { createHash, timingSafeEqual } from "node:crypto";
import { type AddressInfo, createServer as createPlain, type Server, type Socket } from "node:net";
import { createServer, type Server as SecureServer, type TLSSocket } from "node:tls";
import { AttemptLimiter } from "../../kit/rate-limits.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { Counts } from "../../kit/concurrency.ts";
import { randomTicket } from "../../kit/ids.ts";
import { addressKey } from "../../kit/ip-addresses.ts";
import { BACKLOG, connectionKey, UnauthenticatedConnections } from "../../kit/listener.ts";
import type { Home, Usher } from "../home.ts";
import type { SeatProof, SeatRecords } from "./seat-records.ts";
import { pipeline } from "node:stream/promises";
import { createZstdDecompress } from "node:zlib";
import { once } from "node:events";

export type SeatListenerParts = {
  /** The certificate of every service of the installation, whatever its address, and its authority, as PEM. */
  readonly identity: { readonly certificate: string; readonly key: string; readonly authority: string };
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly home: Home;
  readonly blobs: Blobs;
  readonly records: SeatRecords;
  readonly usher?: Usher | undefined;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
};

/** A seat whose agent is expected or connected. */
export type Guest = {
  readonly id: string;
  /** Takes the agent's first connection; returns false if it failed, so that the ticket stays valid. */
  admit(socket: Socket): Promise<boolean>;
  /** Takes another connection of the agent, by secret and fence; false if the session is over, or another service has it. */
  takeBack(socket: Socket, secret: string, fence: number): boolean;
  /** Of the session's secret; null before there is one. */
  readonly secretHash: Buffer | null;
  /** Whether that blob belongs to what it runs. */
  uses(blob: string): boolean;
};

/** Long, for agents on busy machines: a connection that is given up costs its replica, and strangers make room when there are many. */
const HANDSHAKE_MS = 20_000;
/** Connections whose handshake is not over. */
const MAX_STRANGERS = 256;
/** Handshakes of one address, 1.5 ms each. Generous: all pods may be behind one address. Valid tickets do not count. */
const HANDSHAKES = { burst: 2_000, gapMs: 10 };
/** Of one agent at once, which fetches one after the other: each takes memory and processor time here. */
const MAX_FETCHES = 2;
const KEEP_ALIVE_MS = 10_000;

const PREFACE =
  /^millrace 1 (?:seat ([0-9a-f]{32})|(back|blob) (s-[a-z0-9]{12}) ([0-9a-f]{32}) ([0-9a-f]+))$/;
const BLOB = /^[0-9a-f]{64}$/;
const FENCE = /^[1-9][0-9]{0,14}$/;

/** Where remote seats connect, by TLS. Agents show a ticket once and then a secret; tickets of replicas go to `Home`. */
export class SeatListener {
  readonly parts: SeatListenerParts;
  readonly #server: Server;
  readonly #secure: SecureServer;
  readonly #handshakes: AttemptLimiter;
  readonly #tickets = new Map<string, Guest>();
  readonly #guests = new Map<string, Guest>();
  readonly #strangers = new UnauthenticatedConnections<string>(MAX_STRANGERS);
  readonly #fetches = new Counts<Guest>();
  readonly #fetching = new Set<Socket>();
  readonly #lost: LostAgents;

  private constructor(parts: SeatListenerParts) {
    this.parts = parts;
    const { identity } = parts;
    this.#lost = new LostAgents(parts, (agent) => this.#takeBack(agent));
    this.#handshakes = new AttemptLimiter(HANDSHAKES, parts.clock);
    this.#secure = createServer({
      key: identity.key,
      cert: identity.certificate,
      minVersion: "TLSv1.3",
      handshakeTimeout: HANDSHAKE_MS,
    });
    this.#secure.on("tlsClientError", (_, socket: TLSSocket) => socket.destroy());
    this.#secure.on("secureConnection", (socket: TLSSocket) => this.#greet(socket));
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
    this.#server = createPlain(options, (socket) => this.#meet(socket));
  }

  static async listen(parts: SeatListenerParts): Promise<SeatListener> {
    const listener = new SeatListener(parts);
    const server = listener.#server.listen({ host: parts.host, port: parts.port, backlog: BACKLOG });
    await once(server, "listening");
    // A connection could not be accepted because descriptors ran out: the client sees that.
    server.on("error", () => {});
    return listener;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Expects the agent of a seat and returns its ticket. An agent that already has a secret shows that instead. */
  expect(guest: Guest): string {
    const ticket = randomTicket();
    if (guest.secretHash === null) this.#tickets.set(ticket, guest);
    this.#guests.set(guest.id, guest);
    this.#lost.wake(guest.id);
    return ticket;
  }

  /** Admits no agent with that ticket, or with the secret of that seat, any more. */
  forget(seatId: string, ticket: string): void {
    this.#tickets.delete(ticket);
    this.#guests.delete(seatId);
  }

  /** Ends connections that have not been handed over. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#strangers.close();
    this.#lost.close();
    // An agent that was left may still fetch its files; it asks the next service for them.
    for (const socket of this.#fetching) socket.destroy();
    await closed;
  }

  /** Rejected connections are cheap, and the agent retries. */
  #meet(socket: Socket): void {
    if (this.#handshakes.take(addressKey(socket.remoteAddress ?? "")) > 0) {
      socket.destroy();
      return;
    }
    this.#strangers.add(connectionKey(socket), socket);
    this.#secure.emit("connection", socket);
  }

  #greet(socket: TLSSocket): void {
    this.#strangers.release(connectionKey(socket));
    const address = addressKey(socket.remoteAddress ?? "");
    const usher: Usher = (preface, from) => this.#usher(preface, from);
    this.parts.home.welcome(socket, usher, () => this.#handshakes.giveBack(address));
  }

  #usher(preface: string, socket: Socket): boolean {
    const [isAgents, ticket, what, seatId = "", secret = "", last = ""] = PREFACE.exec(preface) ?? [];
    if (isAgents === undefined) return this.parts.usher?.(preface, socket) ?? false;
    if (ticket !== undefined) return this.#admit(ticket, socket);
    const hash = createHash("sha256").update(secret).digest();
    if (what === "blob" && BLOB.test(last)) return this.#giveBlob(this.#known(seatId, hash), last, socket);
    if (what !== "back" || !FENCE.test(last)) return false;
    const agent = { socket, secret, proof: { id: seatId, secretHash: hash, fence: Number(last) } };
    if (this.#takeBack(agent)) return true;
    this.#lost.lead(agent).catch((error: unknown) => {
      // No agent is sent away while the database does not answer.
      socket.destroy();
      this.parts.onError(error);
    });
    return true;
  }

  #admit(ticket: string, socket: Socket): boolean {
    const guest = this.#tickets.get(ticket);
    if (!guest) return false;
    // At once: it is good for one.
    this.#tickets.delete(ticket);
    this.#seat(guest, ticket, socket).catch(this.parts.onError);
    return true;
  }

  async #seat(guest: Guest, ticket: string, socket: Socket): Promise<void> {
    let isHeard = false;
    socket.once("data", () => (isHeard = true));
    const renew = (): void => void (this.#guests.get(guest.id) === guest && this.#tickets.set(ticket, guest));
    // It may have given up before the database answered. Then it has no secret, and shows its ticket again.
    socket.once("close", () => isHeard || renew());
    if (!(await guest.admit(socket))) renew();
  }

  #known(seatId: string, secretHash: Buffer): Guest | null {
    const guest = this.#guests.get(seatId);
    return guest?.secretHash && timingSafeEqual(guest.secretHash, secretHash) ? guest : null;
  }

  #giveBlob(guest: Guest | null, blob: string, socket: Socket): boolean {
    if (!guest?.uses(blob) || this.#fetches.of(guest) >= MAX_FETCHES) return false;
    const { blobs, onError } = this.parts;
    this.#fetching.add(socket);
    socket.once("close", () => this.#fetching.delete(socket));
    this.#fetches.during(guest, () => sendBlob(blobs, blob, socket)).catch(onError);
    return true;
  }

  #takeBack({ socket, secret, proof: { id, secretHash, fence } }: LostAgent): boolean {
    return this.#known(id, secretHash)?.takeBack(socket, secret, fence) ?? false;
  }
}

export type Blobs = {
  /** The bytes of a blob; throws at their end if they are not those of the hash. */
  open(hash: string): AsyncIterable<Buffer>;
};

/** How long an agent may read nothing. */
const SILENCE_MS = 60_000;

/** How a blob begins that a service has packed. */
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/**
 * Sends a blob to an agent: unchanged if an agent packed it, and decompressed if a service did, because few Pythons know
 * zstd. Behind the last byte comes the SHA-256 of all that was sent, but only if the blob is the one that its hash names.
 */
async function sendBlob(blobs: Blobs, hash: string, socket: Socket): Promise<void> {
  socket.setTimeout(SILENCE_MS, () => socket.destroy());
  // Otherwise its end is not noticed.
  socket.resume();
  const pieces = blobs.open(hash)[Symbol.asyncIterator]();
  let isWhole = false;
  const rest = async function* (first: Buffer): AsyncGenerator<Buffer, void, void> {
    yield first;
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) yield next.value;
    isWhole = true;
  };
  const unchanged = async function* (first: Buffer): AsyncGenerator<Buffer, void, void> {
    yield* rest(first);
    yield Buffer.from(hash, "hex");
  };
  const withDigest = async function* (unpacked: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
    const digest = createHash("sha256");
    for await (const piece of unpacked) {
      digest.update(piece);
      yield piece;
    }
    // The archive may end before the blob does.
    if (!isWhole) throw new Error(`the blob ${hash} goes on behind its archive`);
    yield digest.digest();
  };
  try {
    let first: Buffer = Buffer.alloc(0);
    while (first.length < ZSTD.length) {
      const { done, value } = await pieces.next();
      if (done === true) break;
      first = Buffer.concat([first, value]);
    }
    if (first.subarray(0, ZSTD.length).equals(ZSTD))
      await pipeline(rest(first), createZstdDecompress(), withDigest, socket);
    else await pipeline(unchanged(first), socket);
  } catch (error) {
    socket.destroy();
    const { code } = error as NodeJS.ErrnoException;
    // The agent has gone: it was ended, or its machine was.
    if (code !== "ERR_STREAM_PREMATURE_CLOSE" && code !== "EPIPE" && code !== "ECONNRESET") throw error;
  } finally {
    await pieces.return?.();
  }
}

type LostAgent = { readonly socket: Socket; readonly proof: SeatProof; readonly secret: string };

/** How often a waiting agent is looked up and gets a heartbeat: less than the silence that it accepts. */
const LOOK_MS = 2_000;
/** Agents whose claim to a seat is still being looked up in the database. */
const MAX_UNPROVED = 64;
/** For the last message to an agent that must not come back. */
const LAST_WORD_MS = 5_000;

/** Agents of no seat of this service. Those of a dead service wait here until their seat is taken over, or they end. */
class LostAgents {
  readonly #parts: Pick<SeatListenerParts, "records" | "clock">;
  /** Gives it to its seat, if that is one of this service. */
  readonly #takeBack: (agent: LostAgent) => boolean;
  /** One for each seat. */
  readonly #waiting = new Map<string, { readonly socket: Socket; wake: AbortController }>();
  #unproved = 0;
  #isClosed = false;

  constructor(parts: Pick<SeatListenerParts, "records" | "clock">, takeBack: (agent: LostAgent) => boolean) {
    this.#parts = parts;
    this.#takeBack = takeBack;
  }

  /** Rejects while the database does not answer, so that no agent is sent away then. */
  async lead(agent: LostAgent): Promise<void> {
    if (this.#isClosed || this.#unproved >= MAX_UNPROVED) {
      agent.socket.destroy();
      return;
    }
    this.#unproved += 1;
    const isOpen = await this.#isOpen(agent).finally(() => (this.#unproved -= 1));
    if (this.#isClosed) agent.socket.destroy();
    else if (isOpen) await this.#keep(agent);
  }

  /** Whether a service may still take its seat over; if not, the agent gets its answer. */
  async #isOpen(agent: LostAgent): Promise<boolean> {
    const { socket, proof } = agent;
    const found = await this.#parts.records.find(proof);
    if (socket.destroyed || this.#takeBack(agent)) return false;
    if (found.kind === "open") return true;
    const answer = found.kind === "nowhere" ? { fenced: {} } : { elsewhere: { address: found.address } };
    const late = this.#parts.clock.after(LAST_WORD_MS, () => socket.destroy());
    socket.once("close", () => late.cancel());
    socket.resume().end(`${JSON.stringify(answer)}\n`);
    return false;
  }

  /** It has proved that the seat is its own, so it replaces an earlier connection for it. */
  async #keep(agent: LostAgent): Promise<void> {
    const { socket, proof } = agent;
    this.#waiting.get(proof.id)?.socket.destroy();
    const entry = { socket, wake: new AbortController() };
    this.#waiting.set(proof.id, entry);
    socket.once("close", () => entry.wake.abort());
    try {
      do {
        socket.resume().write('{"beat":{}}\n');
        entry.wake = new AbortController();
        await pause(this.#parts.clock, LOOK_MS, entry.wake.signal);
      } while (!socket.destroyed && (await this.#isOpen(agent)));
    } finally {
      if (this.#waiting.get(proof.id) === entry) this.#waiting.delete(proof.id);
    }
  }

  /** This service expects its seat now. */
  wake(seatId: string): void {
    this.#waiting.get(seatId)?.wake.abort();
  }

  close(): void {
    this.#isClosed = true;
    for (const { socket } of this.#waiting.values()) socket.destroy();
  }
}
