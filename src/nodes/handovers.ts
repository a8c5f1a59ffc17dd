import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { ServiceNode } from "../model/node.ts";
import type { OwnedApp } from "../store/nodes/app-owners.ts";
import type { Store } from "../store/store.ts";
import type { NodeLease } from "./lease.ts";

/** The messages to the next owner of an app. */
export type HandoverPeer = {
  /** Starts that many replicas there; rejects if it cannot. */
  prepare(node: ServiceNode, appNumber: number, replicas: number): Promise<void>;
  /** Tells it that it owns the app now. */
  adopt(node: ServiceNode, appNumber: number): Promise<void>;
};

type HandoverParts = {
  readonly store: Pick<Store, "appOwners">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  readonly handoverPeer: HandoverPeer;
};

/** How long an app stays after its next owner could not get ready. */
const UNMOVED_MS = 60_000;

/** Hands apps over to other nodes, each ready there first. */
export class Handovers {
  readonly #parts: HandoverParts;
  /** Apps that could not be moved, and when to retry. */
  readonly #unmoved = new Map<number, number>();
  /** Nodes that failed to get an app ready while this one stops; they are not asked again. */
  readonly #unready = new Set<string>();
  #isHurried = false;

  constructor(parts: HandoverParts) {
    this.#parts = parts;
  }

  /** The node is stopping: apps move even if the next owner is not ready. */
  hurry(): void {
    this.#isHurried = true;
  }

  /** Whether moving the app may be tried now. */
  mayTry(appNumber: number): boolean {
    const until = this.#unmoved.get(appNumber);
    if (until === undefined) return true;
    if (until > this.#parts.clock.monotonic()) return false;
    this.#unmoved.delete(appNumber);
    return true;
  }

  /** Gets the other node ready; false if the app has to stay. */
  async prepare(appNumber: number, to: ServiceNode, replicas: number): Promise<boolean> {
    return (await this.#prepare(appNumber, to, replicas)) || this.#isHurried;
  }

  /** Changes the owner; false if the database has another owner by now. */
  async give(app: OwnedApp, to: ServiceNode): Promise<boolean> {
    const { store, lease } = this.#parts;
    return (await store.appOwners.handOver({ ...app, from: lease.id, to: to.id })) !== null;
  }

  /** Tells the new owner, which would otherwise notice within a second. */
  async tell(to: ServiceNode, appNumber: number): Promise<void> {
    await this.#parts.handoverPeer.adopt(to, appNumber).catch(() => undefined);
  }

  async #prepare(appNumber: number, to: ServiceNode, replicas: number): Promise<boolean> {
    const { handoverPeer, log, clock } = this.#parts;
    if (this.#unready.has(to.id)) return false;
    try {
      await handoverPeer.prepare(to, appNumber, replicas);
      return true;
    } catch (error) {
      log.warn({ err: error, appNumber, node: to.details.name }, "another node cannot take over an app yet");
      if (this.#isHurried) this.#unready.add(to.id);
      else this.#unmoved.set(appNumber, clock.monotonic() + UNMOVED_MS);
      return false;
    }
  }
}
