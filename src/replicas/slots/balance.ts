import type { LoadBalancing } from "../../model/app-config.ts";

type Busy = { readonly busy: number };

/** Chooses among replicas with a free slot; ties go to the oldest, so that the youngest can fall idle. */
export class Balancer {
  readonly #algorithm: LoadBalancing;
  readonly #random: () => number;
  #turn = 0;

  constructor(algorithm: LoadBalancing, random: () => number = Math.random) {
    this.#algorithm = algorithm;
    this.#random = random;
  }

  /** A replica with fewer than `slots` slots in use, or null. */
  choose<R extends Busy>(replicas: readonly R[], slots: number): R | null {
    switch (this.#algorithm) {
      case "min-connections":
        return leastBusy(replicas, slots);
      case "first-available":
        return replicas.find((replica) => replica.busy < slots) ?? null;
      case "round-robin":
        return this.#nextInTurn(replicas, slots);
      case "random-choice-2":
        return leastBusy([this.#any(replicas), this.#any(replicas)], slots) ?? leastBusy(replicas, slots);
      default:
        return this.#algorithm satisfies never;
    }
  }

  #nextInTurn<R extends Busy>(replicas: readonly R[], slots: number): R | null {
    for (let step = 0; step < replicas.length; step++) {
      const replica = replicas[(this.#turn + step) % replicas.length];
      if (replica && replica.busy < slots) {
        this.#turn = (this.#turn + step + 1) % replicas.length;
        return replica;
      }
    }
    return null;
  }

  #any<R>(replicas: readonly R[]): R | undefined {
    return replicas[Math.floor(this.#random() * replicas.length)];
  }
}

function leastBusy<R extends Busy>(replicas: readonly (R | undefined)[], slots: number): R | null {
  let best: R | null = null;
  let bestCalls = slots;
  for (const replica of replicas) {
    if (replica && replica.busy < bestCalls) {
      best = replica;
      bestCalls = replica.busy;
    }
  }
  return best;
}
