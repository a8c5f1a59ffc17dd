/** A delivery that is claimed and waits for its host, without its body. */
export type Ticket = {
  readonly id: string;
  readonly projectId: string;
  readonly bodyBytes: number;
};

const MAX_PER_HOST = 5_000;
const MAX_TICKETS = 20_000;

/** Claimed deliveries whose host has no place for them now, in order of arrival per host. */
export class Waiting {
  readonly #queues = new Map<string, Ticket[]>();
  readonly #maxPerHost: number;
  readonly #maxTickets: number;
  #count = 0;

  constructor(maxPerHost = MAX_PER_HOST, maxTickets = MAX_TICKETS) {
    this.#maxPerHost = maxPerHost;
    this.#maxTickets = maxTickets;
  }

  get count(): number {
    return this.#count;
  }

  /** False when there is no room: neither one host nor all of them may fill the memory. */
  add(origin: string, ticket: Ticket): boolean {
    const queue = this.#queues.get(origin) ?? [];
    if (queue.length >= this.#maxPerHost || this.#count >= this.#maxTickets) return false;
    queue.push(ticket);
    this.#queues.set(origin, queue);
    this.#count += 1;
    return true;
  }

  first(origin: string): Ticket | null {
    return this.#queues.get(origin)?.[0] ?? null;
  }

  removeFirst(origin: string): void {
    const queue = this.#queues.get(origin);
    if (!queue?.shift()) return;
    this.#count -= 1;
    if (queue.length === 0) this.#queues.delete(origin);
  }

  /** Hosts that something waits for. */
  origins(): string[] {
    return [...this.#queues.keys()];
  }
}
