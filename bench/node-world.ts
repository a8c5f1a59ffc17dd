import type { ServiceNode } from "../src/model/node.ts";
import type { AppHolder, OwnedApp } from "../src/store/nodes/app-owners.ts";
import type { Heartbeat } from "../src/store/nodes/nodes.ts";
import type { Store } from "../src/store/store.ts";

/** What nodes ask of the database to know of each other and of their apps. */
export type WorldStore = Pick<Store, "appOwners" | "nodes">;

/** One kind of operation, and how many statements it takes on Postgres: begin and commit count too. */
const STATEMENTS = { renew: 6, list: 1, owned: 1, ownerless: 1, take: 4, handOver: 4, recover: 5 } as const;
export type Asked = keyof typeof STATEMENTS;

/** The others know nothing yet of a node that has only begun. */
type Row = { readonly node: ServiceNode | null; readonly leaseUntil: number };

/**
 * The two tables by which nodes share apps out, in memory and by a clock that somebody moves. It keeps the rules of
 * `src/store/nodes/`, and counts what is asked of it and how many apps change hands.
 */
export class NodeWorld {
  readonly asked = new Map<Asked, number>();
  /** How often an app got another node than it had before. */
  moved = 0;
  /** The node of each app, by its number; null for none. */
  readonly owners: Map<number, string | null>;
  readonly #fences = new Map<number, number>();
  readonly #byOwner = new Map<string | null, Set<number>>();
  readonly #rows = new Map<string, Row>();
  readonly #now: () => number;

  constructor(appCount: number, now: () => number) {
    // As a database counts them, from 1 on.
    this.owners = new Map(Array.from({ length: appCount }, (_, at) => [at + 1, null]));
    this.#byOwner.set(null, new Set(this.owners.keys()));
    this.#now = now;
  }

  /** The parts of a store that nodes share apps out by. */
  store(): WorldStore {
    const nodes = {
      renew: async (sign: Heartbeat) => this.#renew(sign),
      list: async () => this.#list(),
      leave: async (id: string) => void this.#rows.delete(id),
    };
    const appOwners = {
      owned: async (owner: string) => this.#owned(owner),
      ownerless: async (page: { after: number; limit: number; dead: readonly string[] }) =>
        this.#ownerless(page),
      take: async (query: Take) => this.#take(query),
      handOver: async (given: Given) => this.#handOver(given),
      list: async (appNumbers: readonly number[]) =>
        appNumbers.map((appNumber) => {
          const owner = this.owners.get(appNumber) ?? null;
          const fence = this.#fenceOf(appNumber);
          return { appNumber, owner, fence, isAlive: this.#isAlive(owner) };
        }),
    };
    return { nodes, appOwners } as unknown as WorldStore;
  }

  /** Forgets nodes whose lease has passed, as whoever takes over their runs does. */
  recover(): void {
    this.#count("recover");
    for (const [id, { leaseUntil }] of this.#rows) if (leaseUntil <= this.#now()) this.#rows.delete(id);
  }

  /** Statements so far, all kinds together and each by itself. */
  statements(): ReadonlyMap<Asked, number> {
    return new Map([...this.asked].map(([kind, count]) => [kind, count * STATEMENTS[kind]]));
  }

  #renew({ owner, leaseMs, url, details, isLeaving }: Heartbeat): number {
    this.#count("renew");
    const now = this.#now();
    const node = url === null || details === null ? null : { id: owner, url, details, isLeaving, leaseMs };
    this.#rows.set(owner, { node, leaseUntil: now + leaseMs });
    return now;
  }

  #list(): { living: ServiceNode[]; deadCount: number } {
    this.#count("list");
    const rows = [...this.#rows.values()];
    const standing = rows.filter(({ leaseUntil }) => leaseUntil > this.#now());
    const living = standing.flatMap(({ node }) => (node ? [node] : []));
    return {
      living: living.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      deadCount: rows.length - standing.length,
    };
  }

  #owned(owner: string): OwnedApp[] {
    this.#count("owned");
    return [...this.#of(owner)].map((appNumber) => ({ appNumber, fence: this.#fenceOf(appNumber) }));
  }

  #ownerless({ after, limit, dead }: { after: number; limit: number; dead: readonly string[] }): number[] {
    this.#count("ownerless");
    const holders = [...this.#byOwner.keys()].filter(
      (owner) => !this.#isAlive(owner) || dead.includes(owner ?? ""),
    );
    const found = holders.flatMap((owner) => [...this.#of(owner)]).filter((appNumber) => appNumber > after);
    return found.toSorted((a, b) => a - b).slice(0, limit);
  }

  #take({ appNumbers, owner, dead, mayJudge }: Take): OwnedApp[] {
    this.#count("take");
    if (!this.#isAlive(owner)) return [];
    const free = appNumbers.filter((appNumber) => {
      const holder = this.owners.get(appNumber) ?? null;
      return holder === null || (mayJudge && !this.#isAlive(holder)) || dead.includes(holder);
    });
    return free.map((appNumber) => ({ appNumber, fence: this.#give(appNumber, owner) }));
  }

  #handOver({ appNumber, fence, from, to }: Given): number | null {
    this.#count("handOver");
    const isHolder = this.owners.get(appNumber) === from && this.#fenceOf(appNumber) === fence;
    return isHolder && (to === null || this.#isStaying(to)) ? this.#give(appNumber, to) : null;
  }

  #give(appNumber: number, to: string | null): number {
    const from = this.owners.get(appNumber) ?? null;
    this.#of(from).delete(appNumber);
    this.#of(to).add(appNumber);
    this.owners.set(appNumber, to);
    this.#fences.set(appNumber, this.#fenceOf(appNumber) + 1);
    if (from !== null && from !== to) this.moved += 1;
    return this.#fenceOf(appNumber);
  }

  #fenceOf(appNumber: number): number {
    return this.#fences.get(appNumber) ?? 0;
  }

  #of(owner: string | null): Set<number> {
    const apps = this.#byOwner.get(owner) ?? new Set<number>();
    this.#byOwner.set(owner, apps);
    return apps;
  }

  #isAlive(owner: string | null): boolean {
    return owner !== null && (this.#rows.get(owner)?.leaseUntil ?? 0) > this.#now();
  }

  #isStaying(id: string): boolean {
    return this.#isAlive(id) && this.#rows.get(id)?.node?.isLeaving !== true;
  }

  #count(kind: Asked): void {
    this.asked.set(kind, (this.asked.get(kind) ?? 0) + 1);
  }
}

type Take = Parameters<Store["appOwners"]["take"]>[0];
type Given = OwnedApp & { readonly from: AppHolder["owner"]; readonly to: string | null };
