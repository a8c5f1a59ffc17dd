import type { GpuKind, GpuWish } from "../../model/gpu.ts";
import { type Matches, poolsFor } from "./room.ts";

/** The replicas of an app that are never evicted. */
export type Minimum = {
  readonly app: string;
  readonly projectId: string;
  readonly wish: GpuWish;
  readonly replicas: number;
};

/** How many placements are tried. About 20 ms. */
const MAX_TRIED = 5_000;
/** The largest replicas, whose places are searched for; the small ones after them take the first place that fits. */
const MAX_SEARCHED = 500;

/** A GPU that is being filled. */
type Bin = { readonly gpu: GpuKind; readonly leftBytes: number; readonly projectId: string | null };

/**
 * The minimums that do not fit on the machine beside the others; none if all do. Those that come first are placed first. GPUs
 * out of service count, because they may come back.
 */
export function withoutPlace(
  minimums: readonly Minimum[],
  gpus: readonly GpuKind[],
  rules: { readonly sharesAcrossProjects: boolean; readonly matches: Matches },
): readonly Minimum[] {
  const ones = minimums.flatMap((one) => Array.from({ length: one.replicas }, () => one));
  const places = gpus.map((gpu, place) => ({ gpu, place }));
  /** Where each may be. Names are compared once, not in every attempt. */
  const poolsOf = new Map<GpuWish, readonly (readonly number[])[]>();
  for (const wish of new Set(minimums.map((one) => one.wish))) {
    const pools = poolsFor(wish, places, rules.matches);
    poolsOf.set(
      wish,
      pools.map((pool) => pool.map(({ place }) => place)),
    );
  }
  const bins: readonly Bin[] = gpus.map((gpu) => ({ gpu, leftBytes: gpu.memoryBytes, projectId: null }));
  let tried = 0;

  const placements = function* (one: Minimum, into: readonly Bin[]): Generator<readonly Bin[]> {
    for (const pool of poolsOf.get(one.wish)!) {
      // Bins that are filled alike are alike.
      const seen = new Set<string>();
      const fitting = pool
        .map((place) => into[place]!)
        .filter((bin) => fits(one, bin))
        .toSorted((a, b) => a.leftBytes - b.leftBytes);
      for (let start = 0; start + one.wish.count <= fitting.length; start++) {
        const chosen = fitting.slice(start, start + one.wish.count);
        const kind = chosen.map(({ leftBytes, projectId }) => `${leftBytes} ${projectId}`).join();
        if (seen.has(kind)) continue;
        seen.add(kind);
        yield into.map((bin) => (chosen.includes(bin) ? filled(one, bin) : bin));
      }
    }
  };
  const fits = ({ projectId, wish }: Minimum, bin: Bin): boolean => {
    if (wish.memoryBytes === null) return bin.leftBytes === bin.gpu.memoryBytes;
    const isAllowed = rules.sharesAcrossProjects || bin.projectId === null || bin.projectId === projectId;
    return isAllowed && bin.leftBytes >= wish.memoryBytes;
  };
  const areAllPlaced = (left: readonly Minimum[], from: number, into: readonly Bin[]): boolean => {
    const first = left[from];
    if (!first) return true;
    if (from === MAX_SEARCHED) {
      tried = MAX_TRIED;
      return placedOneByOne(left.slice(from), into).size === 0;
    }
    for (const next of placements(first, into)) {
      tried += 1;
      if (tried > MAX_TRIED) return false;
      if (areAllPlaced(left, from + 1, next)) return true;
    }
    return false;
  };

  const placedOneByOne = (left: readonly Minimum[], into: readonly Bin[]): Set<Minimum> => {
    const without = new Set<Minimum>();
    for (const one of left) {
      // Where one of its replicas has no place, neither has the next.
      const [next] = without.has(one) ? [] : placements(one, into);
      if (next) into = next;
      else without.add(one);
    }
    return without;
  };

  // The largest first: they have the fewest places.
  const size = ({ wish }: Minimum): number => wish.count * (wish.memoryBytes ?? Number.MAX_SAFE_INTEGER);
  const bySize = ones.toSorted((a, b) => size(b) - size(a));
  return areAllPlaced(bySize, 0, bins) ? [] : [...placedOneByOne(ones, bins)];
}

function filled({ projectId, wish }: Minimum, bin: Bin): Bin {
  return { gpu: bin.gpu, leftBytes: bin.leftBytes - (wish.memoryBytes ?? bin.leftBytes), projectId };
}
