import type { Clock } from "../kit/clock.ts";
import type { Log } from "../kit/log.ts";
import type { ServiceNode } from "../model/node.ts";
import type { OwnedApp } from "../store/nodes/app-owners.ts";
import type { Store } from "../store/store.ts";
import type { NodeLease } from "./lease.ts";

/** Another node, which is told what it is about to get. */
export type HandoverPeer = {
  /** Makes the app ready there, with as many replicas; rejects when it cannot. */
  prepare(node: ServiceNode, appNumber: number, replicas: number): Promise<void>;
  /** The app is its own now. */
  adopt(node: ServiceNode, appNumber: number): Promise<void>;
};

type HandoverParts = {
  readonly store: Pick<Store, "appOwners">;
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: NodeLease;
  readonly handoverPeer: HandoverPeer;
};

/** So long an app stays that its next node could not get ready: others move first. */
const UNMOVED_MS = 60_000;

/** Gives apps of this node to others, each ready there before it goes. */
export class Handovers {
  readonly #parts: HandoverParts;
  /** Apps that could not be moved, with until when that is not tried again. */
  readonly #unmoved = new Map<number, number>();
  /** Nodes that could not get an app ready while this one leaves: they are not waited for again. */
  readonly #unready = new Set<string>();
  #isHurried = false;

  constructor(parts: HandoverParts) {
    this.#parts = parts;
  }

  /** From now on apps go even if the next node cannot get them ready: this one stops. */
  hurry(): void {
    this.#isHurried = true;
  }

  /** Whether there is no reason against moving an app. */
  mayTry(appNumber: number): boolean {
    const until = this.#unmoved.get(appNumber);
    if (until === undefined) return true;
    if (until > this.#parts.clock.monotonic()) return false;
    this.#unmoved.delete(appNumber);
    return true;
  }

  /** Has the other node get ready; false when the app has to stay. */
  async prepare(appNumber: number, to: ServiceNode, replicas: number): Promise<boolean> {
    return (await this.#prepare(appNumber, to, replicas)) || this.#isHurried;
  }

  /** Gives it the app; false when only the database knows whose that is. */
  async give(app: OwnedApp, to: ServiceNode): Promise<boolean> {
    const { store, lease } = this.#parts;
    return (await store.appOwners.handOver({ ...app, from: lease.id, to: to.id })) !== null;
  }

  /** Tells the other node that the app is its own now; it finds out by itself within a second. */
  async tell(to: ServiceNode, appNumber: number): Promise<void> {
    await this.#parts.handoverPeer.adopt(to, appNumber).catch(() => undefined);
  }

  /** False when the other node cannot get the app ready. */
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
