import type { Clock, Timer } from "../kit/clock.ts";
import { shared } from "../kit/concurrency.ts";
import type { Log } from "../kit/log.ts";
import type { ServiceNode } from "../model/node.ts";
import type { Store } from "../store/store.ts";
import type { NodeLease } from "./lease.ts";

export type RosterParts = {
  readonly store: Pick<Store, "nodes">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  /** The lease of some node has passed: what it holds can be taken over. */
  readonly onDeaths: () => void;
  /** Nodes came, went, are about to leave, or have other GPUs. */
  readonly onChange: () => void;
  /** The lease of that node has passed, or it has left. */
  readonly onGone: (node: ServiceNode) => void;
};

const LOOK_MS = 1_000;

/** The living nodes, looked up every second; while the database does not answer, the last known ones. */
export class Roster {
  /** Every living node by id, including this one. */
  all: readonly ServiceNode[] = [];
  readonly #parts: RosterParts;
  #timer: Timer | null = null;

  constructor(parts: RosterParts) {
    this.#parts = parts;
  }

  /** Those that may be given apps. */
  get takers(): readonly ServiceNode[] {
    return this.all.filter(({ isLeaving }) => !isLeaving);
  }

  find(id: string): ServiceNode | undefined {
    return this.all.find((node) => node.id === id);
  }

  async start(): Promise<void> {
    await this.#look();
    this.#timer = this.#parts.clock.every(LOOK_MS, () => void this.look());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Looks now; a failure is logged, and the timer looks again. */
  readonly look = shared(() =>
    this.#look().catch((error: unknown) =>
      this.#parts.log.error({ err: error }, "could not look up the other nodes"),
    ),
  );

  async #look(): Promise<void> {
    const { store, lease, onDeaths, onChange, onGone } = this.#parts;
    const { living, deadCount } = await store.nodes.list();
    const before = this.all;
    this.all = living;
    if (keyOf(living) !== keyOf(before)) onChange();
    for (const node of before) if (!this.find(node.id)) onGone(node);
    if (deadCount > 0 && lease.mayJudge) onDeaths();
  }
}

/** The fields that others act on. */
function keyOf(nodes: readonly ServiceNode[]): string {
  return nodes
    .map(({ id, url, isLeaving, details }) => `${id} ${url} ${isLeaving} ${JSON.stringify(details.gpus)}`)
    .join("\n");
}
