import type { Socket } from "node:net";
import { addressKey, type AddressRanges } from "./ip-addresses.ts";
import type { Clock } from "./clock.ts";

/** What a connection does: it has brought no whole request yet, waits for a further one, or waits for its answer. */
export type Doing = "silent" | "idle" | "busy";

/** Why there is no place for a connection: too many of its address, or of all. */
export type Refusal = "address" | "listener";

type GateParts = {
  readonly maxConnections: number;
  /** From one address, of connections that have not shown who they are. */
  readonly maxPerAddress: number;
  /** Proxies: the addresses that they forward count instead of theirs. */
  readonly trusted: AddressRanges;
  readonly clock: Clock;
  /** Answers a connection that has to make room, if it can be answered, and closes it. */
  readonly turnAway: (socket: Socket, why: Refusal) => void;
};

/** A connection that has sent nothing for this long may have to make room. */
const PATIENCE_MS = 1_000;
/** Room is made for many at a time: looking for it costs more than making it. */
const BATCH = 32;
/** A look that found nothing is not repeated at once. */
const FRUITLESS_MS = 100;
/** A refused connection waits this long for its request, to be answered; of many that come at once most just end. */
const LINGER_MS = 1_000;
const MAX_LINGERING = 64;
/** From this share on a listener counts as nearly full, and an owner that holds half of it gets no more. */
const NEARLY_FULL = 0.8;
const LARGEST_SHARE = 0.5;

/** A connection, as the gate knows it. */
export class Visitor {
  readonly socket: Socket;
  readonly since: number;
  /** Null for a trusted proxy, which forwards requests of many callers. */
  readonly address: string | null;
  readonly doing: () => Doing;
  /** Set where there was no place for it: its first request is answered with that, and it ends. */
  refusal: Refusal | null = null;
  isKnown = false;
  owner: string | null = null;
  readonly #gate: ConnectionGate;

  constructor(
    gate: ConnectionGate,
    socket: Socket,
    address: string | null,
    since: number,
    doing: () => Doing,
  ) {
    this.#gate = gate;
    this.socket = socket;
    this.since = since;
    this.address = address;
    this.doing = doing;
  }

  /**
   * Whoever is on it has shown who they are: it counts for its owner now, and not for its address. False when the
   * listener is nearly full and this owner holds most of it.
   */
  know(owner: string): boolean {
    return this.#gate.know(this, owner);
  }
}

/**
 * Counts the connections of one listener and keeps them within its limits. When one too many comes, those make room
 * that have waited longest without a request, so that idle connections never block active callers.
 */
export class ConnectionGate {
  readonly #parts: GateParts;
  /** In the order they came, here and below. */
  readonly #all = new Set<Visitor>();
  readonly #strangers = new Map<string, Set<Visitor>>();
  readonly #forwarded = new Map<string, number>();
  readonly #owned = new Map<string, number>();
  #lingering = 0;
  #fruitlessUntil = 0;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** How many connections have a place. */
  get size(): number {
    return this.#all.size;
  }

  /** Takes in a connection that was just accepted. */
  arrive(socket: Socket, doing: () => Doing): Visitor {
    const { maxConnections, maxPerAddress, trusted, clock } = this.#parts;
    const { remoteAddress: remote = "" } = socket;
    const address = trusted.includes(remote) ? null : addressKey(remote);
    const visitor = new Visitor(this, socket, address, clock.monotonic(), doing);
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

  /** See `Visitor.know`. */
  know(visitor: Visitor, owner: string): boolean {
    if (visitor.isKnown || visitor.refusal !== null) return true;
    visitor.isKnown = true;
    this.#forget(visitor);
    if (!this.#all.has(visitor)) return true; // It closed meanwhile.
    visitor.owner = owner;
    const held = (this.#owned.get(owner) ?? 0) + 1;
    this.#owned.set(owner, held);
    const { maxConnections } = this.#parts;
    return this.#all.size <= maxConnections * NEARLY_FULL || held <= maxConnections * LARGEST_SHARE;
  }

  /**
   * Counts a request that a proxy forwards, until its sender is known or it is answered: `leave` says so, once or
   * often. Null when that address has as many under way as it may have connections.
   */
  enter(address: string): (() => void) | null {
    const key = addressKey(address);
    const count = this.#forwarded.get(key) ?? 0;
    if (count >= this.#parts.maxPerAddress) return null;
    this.#forwarded.set(key, count + 1);
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      lower(this.#forwarded, key);
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
    if (visitor.owner !== null) lower(this.#owned, visitor.owner);
  }

  /** It counts for its address no more. */
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

function lower(counts: Map<string, number>, key: string): void {
  const left = (counts.get(key) ?? 1) - 1;
  if (left > 0) counts.set(key, left);
  else counts.delete(key);
}

type Stranger = { readonly socket: Socket; readonly address: string };

/**
 * Connections that have not shown who they are, up to so many. If one too many comes, the oldest goes of the address that
 * has most of them: a flood from one address affects no other address. Those of unix sockets count as one address.
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

  /** Counts a connection that was just accepted, until it is known or closed. */
  add(key: Key, socket: Socket): void {
    if (this.#all.size >= this.#most) this.#turnAway();
    const stranger = { socket, address: addressKey(socket.remoteAddress ?? "") };
    this.#all.set(key, stranger);
    socket.once("close", () => this.#all.get(key) === stranger && this.release(key));
  }

  /** It is a stranger no longer. */
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

/** A key that a `TLSSocket` and the socket which it is around have in common; neither tells the other. */
export function connectionKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * How many connections may wait to be accepted. Node's default of 511 overflows in a crowd, and a caller who gets no
 * place waits a second.
 */
export const BACKLOG = 4_096;

/** At most this long, so that those whose time is over end a few at a time: thousands at once would delay all responses. */
const CHECK_MS = 200;

/** How often a listener looks for requests that come too slowly, in milliseconds. */
export function checkingInterval(timeoutMs: number): number {
  return Math.min(CHECK_MS, timeoutMs / 5);
}

/**
 * How many requests a connection may have sent whose answers have not left. One packet holds well over a thousand, and
 * each keeps some kilobytes until its turn: a stranger's 40 connections that read nothing took 600 MB, and 40 s of
 * of the event loop. A connection with more is closed, as HTTP allows.
 */
export const MAX_PIPELINED = 100;
