import type { SeenPod } from "./pod-state.ts";

/** Whose pod that is. */
export type Held = Pick<SeenPod, "nodeId" | "seatId">;

export type LeftoverParts = {
  /** Whether somebody living holds it; true where that cannot be told. */
  readonly isHeld: (pod: Held) => boolean;
  /** Ends it, unless a pod of that name is another by then. */
  readonly remove: (pod: SeenPod) => Promise<unknown>;
  readonly onError: (error: unknown) => void;
};

/** Pods of other services of the installation. Those of a living one are never touched; those of a dead one go. */
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

  /** Those are all. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#pods.keys()) if (!names.has(name)) this.#pods.delete(name);
  }

  /** Removes what nobody holds. */
  sweep(): void {
    for (const pod of this.#pods.values()) {
      if (this.#leaving.has(pod.uid) || this.#parts.isHeld(pod)) continue;
      this.#leaving.add(pod.uid);
      this.#parts
        .remove(pod)
        .catch((error: unknown) => this.#parts.onError(error))
        .finally(() => this.#leaving.delete(pod.uid));
    }
  }
}
