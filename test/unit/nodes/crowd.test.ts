import { expect } from "vitest";
import { NodeCrowd } from "../../../bench/node-crowd.ts";
import { verifies } from "../../verifies.ts";

const APPS = 1_000;
/** Of machines of two sizes. */
const HOMES = Array.from({ length: 10 }, (_, at) => ({ home: `home-${at}`, cpus: at % 2 === 0 ? 8 : 16 }));

async function crowdOf(): Promise<NodeCrowd> {
  const crowd = new NodeCrowd(APPS);
  await crowd.join(HOMES);
  await crowd.calm();
  expect(crowd.misplaced()).toBe(0);
  return crowd;
}

function ownedBy({ world }: NodeCrowd, id: string): number[] {
  return [...world.owners].filter(([, owner]) => owner === id).map(([appNumber]) => appNumber);
}

verifies("nodes.spread", "apps are spread over nodes by their processors", async () => {
  const shares = (await crowdOf()).shares();
  // By chance alone a node of 67 apps is within 40 % of its share in all but one of a thousand cases.
  for (const share of shares) expect(Math.abs(share - 1)).toBeLessThan(0.4);
});

verifies(
  "nodes.spread",
  "when a node dies, comes back or leaves, its own apps move and no others",
  async () => {
    const crowd = await crowdOf();
    const { id } = crowd.living[3]!;
    const apps = ownedBy(crowd, id);
    const moves = async (change: () => Promise<void> | void): Promise<number> => {
      const before = crowd.world.moved;
      await change();
      await crowd.calm();
      expect(crowd.misplaced()).toBe(0);
      return crowd.world.moved - before;
    };
    expect(await moves(() => crowd.kill(id))).toBe(apps.length);
    expect(await moves(() => crowd.join([HOMES[3]!]))).toBe(apps.length);
    // On its data directory it gets back what it had.
    const again = crowd.living.at(-1)!.id;
    expect(ownedBy(crowd, again)).toEqual(apps);
    expect(await moves(() => crowd.leave(again))).toBe(apps.length);
  },
);
