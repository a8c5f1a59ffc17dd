/** What one host may take of the service. */
export const HOST_LIMITS = {
  /** Attempts in progress at once. */
  attempts: 8,
  /** Bytes of their bodies; one attempt is always allowed. */
  bodyBytes: 64 * 1024 * 1024,
  /** After this many attempts in a row without an answer, the host rests. */
  failures: 5,
  /** The first rest; each further one is twice as long, up to the maximum. */
  restMs: 5_000,
  maxRestMs: 60_000,
};

/** `failures` and `rests` count those in a row. */
type Host = { busy: number; busyBytes: number; failures: number; rests: number; restsUntil: number };

/** When more hosts than this are known, those at rest without attempts are forgotten. */
const MAX_KNOWN = 10_000;

/**
 * Limits each origin, so that a slow or dead host does not delay others. A host that does not answer rests; then a single
 * attempt goes ahead. Any answer counts, even an error: one origin may have many receivers.
 */
export class Hosts {
  readonly #limits: typeof HOST_LIMITS;
  readonly #hosts = new Map<string, Host>();

  constructor(limits = HOST_LIMITS) {
    this.#limits = limits;
  }

  /** Takes a place; false when there is none now. */
  take(origin: string, bodyBytes: number, now: number): boolean {
    const host = this.#hosts.get(origin) ?? this.#add(origin, now);
    const { attempts, bodyBytes: maxBytes } = this.#limits;
    if (host.busy === 0 && now < host.restsUntil) return false;
    if (host.busy > 0 && (host.busy >= attempts || host.rests > 0)) return false;
    if (host.busy > 0 && host.busyBytes + bodyBytes > maxBytes) return false;
    host.busy += 1;
    host.busyBytes += bodyBytes;
    return true;
  }

  /** Gives a place back. `hasAnswered` is null when the attempt says nothing about the host. */
  release(origin: string, bodyBytes: number, hasAnswered: boolean | null, now: number): void {
    const host = this.#hosts.get(origin);
    if (!host) throw new Error(`no attempt at ${origin} is under way`);
    host.busy -= 1;
    host.busyBytes -= bodyBytes;
    if (hasAnswered === true) Object.assign(host, { failures: 0, rests: 0, restsUntil: 0 });
    else if (hasAnswered === false) {
      host.failures += 1;
      // Attempts that began before the rest and fail during it do not lengthen it.
      if (host.failures >= this.#limits.failures && now >= host.restsUntil) {
        host.restsUntil = now + Math.min(this.#limits.maxRestMs, this.#limits.restMs * 2 ** host.rests);
        host.rests += 1;
      }
    }
    if (host.busy === 0 && host.failures === 0) this.#hosts.delete(origin);
  }

  /** When a host at rest may be tried again; 0 for one that is not at rest or is being tried. */
  restsUntil(origin: string): number {
    const host = this.#hosts.get(origin);
    return host && host.busy === 0 ? host.restsUntil : 0;
  }

  #add(origin: string, now: number): Host {
    if (this.#hosts.size >= MAX_KNOWN) {
      for (const [known, { busy, restsUntil }] of this.#hosts) {
        if (busy === 0 && restsUntil <= now) this.#hosts.delete(known);
      }
    }
    const host = { busy: 0, busyBytes: 0, failures: 0, rests: 0, restsUntil: 0 };
    this.#hosts.set(origin, host);
    return host;
  }
}

/** Attempts in progress at once, of all projects, and bytes of their bodies. */
export const MAX_ATTEMPTS = 256;
export const MAX_BYTES = 256 * 1024 * 1024;

/**
 * Each project may have as much in progress as is left for all others. One project alone gets half of all places, so hosts
 * that never answer always leave some to other projects.
 */
export class ProjectShares {
  readonly #held = new Map<string, { attempts: number; bytes: number }>();
  #attempts = 0;
  #bytes = 0;

  /** Whether an attempt with a body of that size may begin; a project's only one may be of any size. */
  hasRoom(projectId: string, bodyBytes: number): boolean {
    const { attempts, bytes } = this.#held.get(projectId) ?? { attempts: 0, bytes: 0 };
    if (attempts >= MAX_ATTEMPTS - this.#attempts) return false;
    return attempts === 0 || bytes + bodyBytes <= MAX_BYTES - this.#bytes;
  }

  /** Takes a place with 1, and gives it back with -1. */
  add(projectId: string, bodyBytes: number, more: 1 | -1): void {
    const held = this.#held.get(projectId) ?? { attempts: 0, bytes: 0 };
    this.#held.set(projectId, held);
    held.attempts += more;
    held.bytes += more * bodyBytes;
    this.#attempts += more;
    this.#bytes += more * bodyBytes;
    if (held.attempts === 0) this.#held.delete(projectId);
  }
}

/** A claimed delivery that waits for its host or its project's turn, without its body. */
export type Ticket = {
  readonly id: string;
  readonly projectId: string;
  readonly origin: string;
  readonly bodyBytes: number;
};

const MAX_PER_KEY = 5_000;
const MAX_TICKETS = 20_000;

/** Claimed deliveries that have to wait, in order of arrival by the host or project that they wait for. */
export class Waiting {
  count = 0;
  readonly #queues = new Map<string, Ticket[]>();
  readonly #maxPerKey: number;
  readonly #maxTickets: number;

  constructor(maxPerKey = MAX_PER_KEY, maxTickets = MAX_TICKETS) {
    this.#maxPerKey = maxPerKey;
    this.#maxTickets = maxTickets;
  }

  /** False when there is no room: neither one key nor all of them may fill the memory. */
  add(key: string, ticket: Ticket): boolean {
    const queue = this.#queues.get(key) ?? [];
    if (queue.length >= this.#maxPerKey || this.count >= this.#maxTickets) return false;
    queue.push(ticket);
    this.#queues.set(key, queue);
    this.count += 1;
    return true;
  }

  first(key: string): Ticket | null {
    return this.#queues.get(key)?.[0] ?? null;
  }

  removeFirst(key: string): void {
    const queue = this.#queues.get(key);
    if (!queue?.shift()) return;
    this.count -= 1;
    if (queue.length === 0) this.#queues.delete(key);
  }

  /** Hosts, or projects, with waiting deliveries. */
  keys(): string[] {
    return [...this.#queues.keys()];
  }
}
