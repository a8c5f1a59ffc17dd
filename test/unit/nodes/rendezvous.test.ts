import { expect } from "vitest";
import { type Candidate, winnerOf } from "../../../src/nodes/rendezvous.ts";
import { verifies } from "../../verifies.ts";

const APPS = Array.from({ length: 4_000 }, (_, i) => i + 1);

function node(name: string, cpus = 4): Candidate {
  return { id: `${name}-started-once`, details: { home: name, capacity: { cpus, memoryBytes: 0 } } };
}

function sharesOf(nodes: readonly Candidate[]): Map<string, number> {
  return new Map(
    [...Map.groupBy(APPS, (app) => winnerOf(app, nodes)?.id ?? "")].map(([id, apps]) => [id, apps.length]),
  );
}

verifies(
  "nodes.spread",
  "apps spread by capacity, and only the share of a node that comes or goes moves",
  () => {
    const [large, small, other] = [node("large", 8), node("small", 4), node("other", 4)];
    const shares = sharesOf([large, small, other]);
    const mean = APPS.length / 16;
    for (const { id, details } of [large, small, other])
      expect(Math.abs((shares.get(id) ?? 0) / (mean * details.capacity.cpus) - 1)).toBeLessThan(0.1);
    for (const app of APPS) {
      const before = winnerOf(app, [large, small, other]);
      const after = winnerOf(app, [small, large]);
      if (before !== other) expect(after).toBe(before);
    }
    // A node that starts again on its data directory gets what it had.
    const again = { ...small, id: "small-started-again" };
    const lacking = APPS.filter((app) => winnerOf(app, [large, small]) === small);
    expect(APPS.filter((app) => winnerOf(app, [large, again]) === again)).toEqual(lacking);
  },
);
