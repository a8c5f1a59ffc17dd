import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Heap } from "../../../src/kit/heap.ts";

type Item = { rank: number };

const step = fc.oneof(
  fc.record({ act: fc.constant("add" as const), rank: fc.nat(20) }),
  fc.record({ act: fc.constant("move" as const), pick: fc.nat(), rank: fc.nat(20) }),
  fc.record({ act: fc.constant("remove" as const), pick: fc.nat() }),
);

test("whatever comes, goes and changes its rank, the first one has the lowest", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const heap = new Heap<Item>((a, b) => a.rank < b.rank);
      const items: Item[] = [];
      for (const each of steps) {
        if (each.act === "add") {
          const item = { rank: each.rank };
          items.push(item);
          heap.add(item);
        } else if (items.length > 0) {
          const index = each.pick % items.length;
          const item = items[index]!;
          if (each.act === "move") {
            item.rank = each.rank;
            heap.moved(item);
          } else {
            items.splice(index, 1);
            heap.remove(item);
          }
        }
        expect(heap.size).toBe(items.length);
        expect(heap.first?.rank).toBe(
          items.length === 0 ? undefined : Math.min(...items.map((item) => item.rank)),
        );
        expect(new Set(heap.values())).toEqual(new Set(items));
      }
    }),
  );
});

test("an item that is not there is neither moved nor removed", () => {
  const heap = new Heap<Item>((a, b) => a.rank < b.rank);
  heap.add({ rank: 1 });
  heap.remove({ rank: 1 });
  heap.moved({ rank: 0 });
  expect([heap.size, heap.first?.rank]).toEqual([1, 1]);
});
