/** A place that was given: it is held until it is left. */
export type Place = {
  readonly owner: string;
  /** Called when somebody with fewer places takes it. */
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
  readonly #places = new Map<string, Set<Place>>();
  #count = 0;

  constructor(max: number, maxOfOwner: number) {
    this.#max = max;
    this.#maxOfOwner = maxOfOwner;
  }

  /** Whether an owner has less than its share. */
  hasRoom(owner: string): boolean {
    return (this.#places.get(owner)?.size ?? 0) < this.#maxOfOwner;
  }

  /** A place, or null where the owner has its share. */
  enter(owner: string): Place | null {
    const own = this.#places.get(owner) ?? new Set();
    if (!this.hasRoom(owner)) return null;
    if (this.#count >= this.#max && !this.#makeRoom(own.size)) return null;
    const place = { owner, onTaken: () => {} };
    own.add(place);
    this.#places.set(owner, own);
    this.#count += 1;
    return place;
  }

  /** Gives a place back; twice is once. */
  leave(place: Place): void {
    const own = this.#places.get(place.owner);
    if (!own?.delete(place)) return;
    this.#count -= 1;
    if (own.size === 0) this.#places.delete(place.owner);
  }

  /** Takes a place from the owner who has most, if that leaves them no worse off than who asks. */
  #makeRoom(ownCount: number): boolean {
    let most: Set<Place> | null = null;
    for (const places of this.#places.values()) if (places.size > (most?.size ?? 0)) most = places;
    const newest = most && most.size > ownCount + 1 ? [...most].at(-1) : undefined;
    if (!newest) return false;
    this.leave(newest);
    newest.onTaken();
    return true;
  }
}
