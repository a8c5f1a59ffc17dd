import type { SeenPod } from "./pod-state.ts";

/** Whose pod that is. */
export type Held = Pick<SeenPod, "nodeId" | "seatId">;

export type LeftoverParts = {
  /** Whether somebody living holds it; true where that cannot be told. */
  readonly isHeld: (pod: Held) => boolean;
  /** Which of those seats another service may still take over, or has taken over. */
  readonly known: (seatIds: readonly string[]) => Promise<ReadonlySet<string>>;
  /** Ends it, unless a pod of that name is another by then. */
  readonly remove: (pod: SeenPod) => Promise<unknown>;
};

/**
 * Pods of other services of the installation. Those of a living one are never touched; those of a dead one go, unless
 * another has taken them over, or may still do so.
 */
export class Leftovers {
  readonly #parts: LeftoverParts;
  readonly #pods = new Map<string, SeenPod>();
  readonly #leaving = new Set<string>();

  constructor(parts: LeftoverParts) {
    this.#parts = parts;
  }

  see(pod: SeenPod): void {
    this.#pods.set(pod.name, pod);
  }

  seeGone(name: string): void {
    this.#pods.delete(name);
  }

  /** It is this service's from now on; null if there is no such pod. */
  take(name: string): SeenPod | null {
    const pod = this.#pods.get(name) ?? null;
    this.#pods.delete(name);
    return pod;
  }

  /** Those are all. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#pods.keys()) if (!names.has(name)) this.#pods.delete(name);
  }

  /** Removes what nobody holds. `isLast`: nor is anything to be taken over any more. */
  async sweep(isLast = false): Promise<void> {
    const { isHeld, known, remove } = this.#parts;
    const lost = [...this.#pods.values()].filter(
      (pod) => !pod.isLeaving && !this.#leaving.has(pod.uid) && !isHeld(pod),
    );
    const running = lost.filter(({ end }) => end === null).map(({ seatId }) => seatId);
    const wanted = isLast || running.length === 0 ? new Set<string>() : await known(running);
    // Meanwhile it may have been taken over, or have changed: the next sweep sees.
    const unwanted = lost.filter((pod) => !wanted.has(pod.seatId) && this.#pods.get(pod.name) === pod);
    const removals = unwanted.map(async (pod) => {
      this.#leaving.add(pod.uid);
      await remove(pod).finally(() => this.#leaving.delete(pod.uid));
    });
    await Promise.all(removals);
  }
}
