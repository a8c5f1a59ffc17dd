import { expect, test } from "vitest";
import { type Permit, SocketShares } from "../../../../src/management/api/sockets.ts";
import { verifies } from "../../../verifies.ts";

/** Enters so many times; gives the permits, and notes which are taken. */
function enter(shares: SocketShares, owner: string, count: number, taken: string[]): (Permit | null)[] {
  return Array.from({ length: count }, (_, i) => {
    const permit = shares.enter(owner);
    if (permit) permit.onTaken = () => taken.push(`${owner} ${i}`);
    return permit;
  });
}

verifies("logs.sockets.share", "when all permits are taken, who has fewer takes from who has most", () => {
  const shares = new SocketShares(10, 10);
  const taken: string[] = [];
  expect(enter(shares, "greedy", 12, taken).filter(Boolean)).toHaveLength(10);
  expect(enter(shares, "modest", 3, taken).every(Boolean)).toBe(true);
  expect(taken).toEqual(["greedy 9", "greedy 8", "greedy 7"]);
  // No further than to an equal share.
  expect(enter(shares, "modest", 5, taken).filter(Boolean)).toHaveLength(2);
  expect(taken).toHaveLength(5);
  expect(shares.enter("greedy")).toBeNull();
  expect(shares.enter("third")).not.toBeNull();
});

test("no owner has more than its share, and a permit that is left is free", () => {
  const shares = new SocketShares(100, 5);
  const permits = enter(shares, "one", 6, []);
  expect(permits.map(Boolean)).toEqual([true, true, true, true, true, false]);
  shares.leave(permits[0]!);
  shares.leave(permits[0]!);
  expect(enter(shares, "one", 2, []).map(Boolean)).toEqual([true, false]);
});

test("a permit that was taken and is left then is left once", () => {
  const shares = new SocketShares(2, 2);
  const [, second] = enter(shares, "one", 2, []);
  expect(shares.enter("two")).not.toBeNull();
  shares.leave(second!);
  expect(shares.enter("three")).toBeNull();
});
