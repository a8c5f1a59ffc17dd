/** A delivery that is claimed and waits for its host or its project's turn, without its body. */
export type Ticket = {
  readonly id: string;
  readonly projectId: string;
  readonly origin: string;
  readonly bodyBytes: number;
};

const MAX_PER_KEY = 5_000;
const MAX_TICKETS = 20_000;

/** Claimed deliveries for which there is no place now, in order of arrival by what they wait for. */
export class Waiting {
  readonly #queues = new Map<string, Ticket[]>();
  readonly #maxPerKey: number;
  readonly #maxTickets: number;
  #count = 0;

  constructor(maxPerKey = MAX_PER_KEY, maxTickets = MAX_TICKETS) {
    this.#maxPerKey = maxPerKey;
    this.#maxTickets = maxTickets;
  }

  get count(): number {
    return this.#count;
  }

  /** False when there is no room: neither one key nor all of them may fill the memory. */
  add(key: string, ticket: Ticket): boolean {
    const queue = this.#queues.get(key) ?? [];
    if (queue.length >= this.#maxPerKey || this.#count >= this.#maxTickets) return false;
    queue.push(ticket);
    this.#queues.set(key, queue);
    this.#count += 1;
    return true;
  }

  first(key: string): Ticket | null {
    return this.#queues.get(key)?.[0] ?? null;
  }

  removeFirst(key: string): void {
    const queue = this.#queues.get(key);
    if (!queue?.shift()) return;
    this.#count -= 1;
    if (queue.length === 0) this.#queues.delete(key);
  }

  /** Hosts, or projects, that something waits for. */
  keys(): string[] {
    return [...this.#queues.keys()];
  }
}
