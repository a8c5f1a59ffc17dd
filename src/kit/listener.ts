import type { Socket } from "node:net";
import { addressKey, type AddressRanges } from "./ip-addresses.ts";
import type { Clock } from "./clock.ts";
import { Counts } from "./concurrency.ts";

/** What a connection does: it has sent no whole request yet, waits for the next one, or waits for an answer. */
export type Doing = "silent" | "idle" | "busy";

/** Why there is no place for a connection: too many of its address, or of all. */
export type Refusal = "address" | "listener";

type GateParts = {
  readonly maxConnections: number;
  /** Connections from one address that are not authenticated. */
  readonly maxPerAddress: number;
  /** Proxies: the addresses that they forward count instead of theirs. */
  readonly trusted: AddressRanges;
  readonly clock: Clock;
  /** Answers a connection that has to make room, if it can be answered, and closes it. */
  readonly turnAway: (socket: Socket, why: Refusal) => void;
};

/** A silent connection may be closed to make room after this long. */
const PATIENCE_MS = 1_000;
/** Room is made for many at a time: looking for it costs more than making it. */
const BATCH = 32;
/** The gap after a search for room that found none. */
const FRUITLESS_MS = 100;
/** A refused connection waits this long for its request, to answer it. Beyond the maximum, connections just end. */
const LINGER_MS = 1_000;
const MAX_LINGERING = 64;
/** From this share on, a listener is nearly full, and an owner that holds half of it gets no more. */
const NEARLY_FULL = 0.8;
const LARGEST_SHARE = 0.5;

/** A connection, as the gate knows it. */
export type Visitor = {
  readonly socket: Socket;
  readonly since: number;
  /** Null for a trusted proxy, which forwards requests of many callers. */
  readonly address: string | null;
  readonly doing: () => Doing;
  /** Set if there was no place for it: its first request is answered with that, and it ends. */
  refusal: Refusal | null;
  isKnown: boolean;
  owner: string | null;
  /**
   * It is authenticated and counts for its owner, no longer for its address. False if the listener is nearly full and
   * this owner holds most of it.
   */
  know(owner: string): boolean;
};

/**
 * Keeps the connections of one listener within its limits. To make room for a new one, it closes those that have waited
 * longest without a request, so that idle connections never block active callers.
 */
export class ConnectionGate {
  readonly #parts: GateParts;
  /** In the order they came, here and below. */
  readonly #all = new Set<Visitor>();
  readonly #strangers = new Map<string, Set<Visitor>>();
  readonly #forwarded = new Counts<string>();
  readonly #owned = new Counts<string>();
  #lingering = 0;
  #fruitlessUntil = 0;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** How many connections have a place. */
  get size(): number {
    return this.#all.size;
  }

  /** Admits or refuses a connection that was just accepted. */
  arrive(socket: Socket, doing: () => Doing): Visitor {
    const { maxConnections, maxPerAddress, trusted, clock } = this.#parts;
    const { remoteAddress: remote = "" } = socket;
    const address = trusted.includes(remote) ? null : addressKey(remote);
    const visitor: Visitor = {
      socket,
      since: clock.monotonic(),
      address,
      doing,
      refusal: null,
      isKnown: false,
      owner: null,
      know: (owner) => this.#know(visitor, owner),
    };
    const others = address === null ? null : (this.#strangers.get(address) ?? null);
    if (this.#all.size >= maxConnections && !this.#makeRoom(this.#all, "listener")) {
      this.#refuse(visitor, "listener");
    } else if (others && others.size >= maxPerAddress && !this.#makeRoom(others, "address")) {
      this.#refuse(visitor, "address");
    } else {
      this.#seat(visitor);
    }
    return visitor;
  }

  #know(visitor: Visitor, owner: string): boolean {
    if (visitor.isKnown || visitor.refusal !== null) return true;
    visitor.isKnown = true;
    this.#forget(visitor);
    if (!this.#all.has(visitor)) return true; // It closed meanwhile.
    visitor.owner = owner;
    const held = this.#owned.add(owner, 1);
    const { maxConnections } = this.#parts;
    return this.#all.size <= maxConnections * NEARLY_FULL || held <= maxConnections * LARGEST_SHARE;
  }

  /**
   * Counts a request that a proxy forwards, until the returned function is called (idempotent): its sender is known, or it
   * is answered. Null if that address has as many in progress as it may have connections.
   */
  enter(address: string): (() => void) | null {
    const key = addressKey(address);
    if (this.#forwarded.of(key) >= this.#parts.maxPerAddress) return null;
    this.#forwarded.add(key, 1);
    let isIn = true;
    return () => {
      if (isIn) this.#forwarded.add(key, -1);
      isIn = false;
    };
  }

  #seat(visitor: Visitor): void {
    const { socket, address } = visitor;
    this.#all.add(visitor);
    if (address !== null) {
      const strangers = this.#strangers.get(address);
      if (strangers) strangers.add(visitor);
      else this.#strangers.set(address, new Set([visitor]));
    }
    socket.once("close", () => this.#leave(visitor));
  }

  #leave(visitor: Visitor): void {
    if (!this.#all.delete(visitor)) return;
    this.#forget(visitor);
    if (visitor.owner !== null) this.#owned.add(visitor.owner, -1);
  }

  /** It no longer counts for its address. */
  #forget(visitor: Visitor): void {
    const { address } = visitor;
    if (address === null) return;
    const strangers = this.#strangers.get(address);
    if (strangers?.delete(visitor) && strangers.size === 0) this.#strangers.delete(address);
  }

  #refuse(visitor: Visitor, why: Refusal): void {
    const { socket } = visitor;
    visitor.refusal = why;
    if (this.#lingering >= MAX_LINGERING) {
      socket.destroy();
      return;
    }
    this.#lingering += 1;
    const timer = this.#parts.clock.after(LINGER_MS, () => socket.destroy());
    socket.once("close", () => {
      this.#lingering -= 1;
      timer.cancel();
    });
  }

  /** Closes the connections that have waited longest: first silent ones, then idle ones; known callers only if idle. */
  #makeRoom(among: ReadonlySet<Visitor>, why: Refusal): boolean {
    const now = this.#parts.clock.monotonic();
    if (why === "listener" && now < this.#fruitlessUntil) return false;
    const [silent, idle, known]: [Visitor[], Visitor[], Visitor[]] = [[], [], []];
    for (const visitor of among) {
      if (now - visitor.since < PATIENCE_MS || silent.length === BATCH) break;
      const doing = visitor.doing();
      if (visitor.isKnown) {
        if (doing === "idle" && known.length < BATCH) known.push(visitor);
      } else if (doing === "silent") silent.push(visitor);
      else if (doing === "idle" && idle.length < BATCH) idle.push(visitor);
    }
    const chosen = [silent, idle, known].find(({ length }) => length > 0) ?? [];
    for (const visitor of chosen) {
      this.#leave(visitor);
      this.#parts.turnAway(visitor.socket, why);
    }
    if (chosen.length > 0) return true;
    if (why === "listener") this.#fruitlessUntil = now + FRUITLESS_MS;
    return false;
  }
}

type Stranger = { readonly socket: Socket; readonly address: string };

/**
 * Limits connections that are not authenticated. To make room, it closes the oldest of the address that has most of them:
 * a flood from one address affects no other address. Unix sockets count as one address.
 */
export class UnauthenticatedConnections<Key = Socket> {
  readonly #most: number;
  /** The oldest first. */
  readonly #all = new Map<Key, Stranger>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Counts a connection until it is released or closed. */
  add(key: Key, socket: Socket): void {
    if (this.#all.size >= this.#most) this.#turnAway();
    const stranger = { socket, address: addressKey(socket.remoteAddress ?? "") };
    this.#all.set(key, stranger);
    socket.once("close", () => this.#all.get(key) === stranger && this.release(key));
  }

  /** It is authenticated. */
  release(key: Key): void {
    this.#all.delete(key);
  }

  close(): void {
    for (const { socket } of this.#all.values()) socket.destroy();
  }

  #turnAway(): void {
    const crowds = Map.groupBy(this.#all, ([, { address }]) => address);
    const [largest = []] = [...crowds.values()].toSorted((one, other) => other.length - one.length);
    const [oldest] = largest;
    if (!oldest) return;
    const [key, { socket }] = oldest;
    this.#all.delete(key);
    socket.destroy();
  }
}

/** The same for a `TLSSocket` and the socket below it, which do not name each other. */
export function connectionKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Connections that may wait to be accepted. Node's default of 511 overflows under load; a caller then waits 1 s. */
export const BACKLOG = 4_096;

/** The maximum, so that late requests end a few at a time: thousands at once would delay all responses. */
const CHECK_MS = 200;

/** How often a listener looks for requests that arrive too slowly, in milliseconds. */
export function checkingInterval(timeoutMs: number): number {
  return Math.min(CHECK_MS, timeoutMs / 5);
}

/**
 * Unanswered requests that a connection may have; one with more is closed, as HTTP allows. One packet holds over a
 * thousand, each some kilobytes: 40 connections that read nothing took 600 MB, and 40 s of the event loop.
 */
export const MAX_PIPELINED = 100;
