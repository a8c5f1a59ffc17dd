/** A permit that was given: it is held until it is left. */
export type Permit = {
  readonly owner: string;
  /** Called when somebody with fewer permits takes it. */
  onTaken: () => void;
};

/**
 * Places for open sockets. Each owner may have so many; when all are taken, an owner with fewer takes the newest of
 * the one with most: nobody can keep another out.
 */
export class SocketShares {
  readonly #max: number;
  readonly #maxOfOwner: number;
  /** Of each owner, the oldest first. */
  readonly #permits = new Map<string, Set<Permit>>();
  #count = 0;

  constructor(max: number, maxOfOwner: number) {
    this.#max = max;
    this.#maxOfOwner = maxOfOwner;
  }

  /** Whether an owner has less than its share. */
  hasRoom(owner: string): boolean {
    return (this.#permits.get(owner)?.size ?? 0) < this.#maxOfOwner;
  }

  /** A permit, or null where the owner has its share. */
  enter(owner: string): Permit | null {
    const own = this.#permits.get(owner) ?? new Set();
    if (!this.hasRoom(owner)) return null;
    if (this.#count >= this.#max && !this.#makeRoom(own.size)) return null;
    const permit = { owner, onTaken: () => {} };
    own.add(permit);
    this.#permits.set(owner, own);
    this.#count += 1;
    return permit;
  }

  /** Gives a permit back; twice is once. */
  leave(permit: Permit): void {
    const own = this.#permits.get(permit.owner);
    if (!own?.delete(permit)) return;
    this.#count -= 1;
    if (own.size === 0) this.#permits.delete(permit.owner);
  }

  /** Takes a permit from the owner who has most, if that leaves them no worse off than who asks. */
  #makeRoom(ownCount: number): boolean {
    let most: Set<Permit> | null = null;
    for (const permits of this.#permits.values()) if (permits.size > (most?.size ?? 0)) most = permits;
    const newest = most && most.size > ownCount + 1 ? [...most].at(-1) : undefined;
    if (!newest) return false;
    this.leave(newest);
    newest.onTaken();
    return true;
  }
}
