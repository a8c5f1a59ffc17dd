import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import {
  RUN_AHEAD_MS,
  UuidSource,
  randomName,
  randomTicket,
  uuidBytes,
  uuidText,
  writeUuid,
} from "../../../src/kit/ids.ts";
import { RUN_ID } from "../../../src/model/names.ts";
import { verifies } from "../../verifies.ts";

const NOW_MS = Date.UTC(2026, 6, 1);
const HOUR_MS = 3_600_000;
const timeOf = (id: string): number => uuidBytes(id).readUIntBE(0, 6);

describe("a source of ids", () => {
  let source = new UuidSource();
  const uuidv7 = (nowMs: number): string => source.next(nowMs);

  beforeEach(() => {
    source = new UuidSource();
  });

  test("carries the time, version 7 and the RFC variant", () => {
    const bytes = uuidBytes(uuidv7(NOW_MS));
    expect(bytes.readUIntBE(0, 6)).toBe(NOW_MS);
    expect(bytes[6]! >> 4).toBe(7);
    expect(bytes[8]! >> 6).toBe(0b10);
  });

  test("has the usual text form", () => {
    for (let i = 0; i < 1_000; i += 1) expect(uuidv7(NOW_MS)).toMatch(RUN_ID);
  });

  test("a hundred thousand ids of one millisecond are distinct and sorted by birth", () => {
    const ids = Array.from({ length: 100_000 }, () => uuidv7(NOW_MS));
    expect(new Set(ids).size).toBe(ids.length);
    const firstUnsorted = ids.findIndex((id, place) => place > 0 && id <= ids[place - 1]!);
    expect(firstUnsorted).toBe(-1);
  });

  test("ids stay sorted however the clock jumps", () => {
    const jump = fc.integer({ min: -3_600_000, max: 3_600_000 });
    fc.assert(
      fc.property(fc.array(jump, { minLength: 2 }), (jumps) => {
        const ids = jumps.map((jumpMs) => uuidv7(NOW_MS + jumpMs));
        expect(ids.every((id, place) => place === 0 || id > ids[place - 1]!)).toBe(true);
      }),
    );
  });

  verifies("ids.clock", "ids of runs are never more than 10 s ahead of the clock, whatever it does", () => {
    const jump = fc.integer({ min: -2 * HOUR_MS, max: 2 * HOUR_MS });
    fc.assert(
      fc.property(fc.array(jump, { minLength: 2 }), (jumps) => {
        const bounded = new UuidSource(RUN_AHEAD_MS);
        let last = "";
        for (const jumpMs of jumps) {
          const nowMs = NOW_MS + jumpMs;
          const lastMs = last === "" ? 0 : timeOf(last);
          const id = bounded.next(nowMs);
          expect(timeOf(id) - nowMs).toBeGreaterThanOrEqual(0);
          expect(timeOf(id) - nowMs).toBeLessThanOrEqual(RUN_AHEAD_MS);
          // Sorted by birth, unless the clock was set back further than that.
          expect(id > last).toBe(lastMs - nowMs <= RUN_AHEAD_MS);
          last = id;
        }
      }),
    );
  });

  verifies(
    "ids.clock",
    "an hour after the clock was set back by one, ids are sorted by birth all along",
    () => {
      const bounded = new UuidSource(RUN_AHEAD_MS);
      bounded.next(NOW_MS);
      const ids = Array.from({ length: 3_600 }, (_, second) =>
        bounded.next(NOW_MS - HOUR_MS + 1_000 * second),
      );
      expect(ids.toSorted()).toEqual(ids);
    },
  );

  test("the random part differs between ids of one moment", () => {
    const tails = Array.from({ length: 10_000 }, () => uuidv7(NOW_MS).slice(19));
    expect(new Set(tails).size).toBe(tails.length);
  });

  test("the largest time that 48 bits hold is kept", () => {
    const lastMs = 2 ** 48 - 1;
    expect(uuidBytes(uuidv7(lastMs)).readUIntBE(0, 6)).toBe(lastMs);
  });
});

describe("the text and byte forms", () => {
  test("each is the inverse of the other", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        expect(new Uint8Array(uuidBytes(uuidText(bytes)))).toEqual(bytes);
      }),
    );
  });

  test("the bytes are the same where they are written among others, and nothing beside them is", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.nat({ max: 8 }), (bytes, start) => {
        for (const text of [uuidText(bytes), uuidText(bytes).toUpperCase()]) {
          const among = new Uint8Array(32).fill(0xaa);
          writeUuid(text, among, start);
          const wanted = new Uint8Array(32).fill(0xaa);
          wanted.set(bytes, start);
          expect(among).toEqual(wanted);
        }
      }),
    );
  });

  test("a view into a larger buffer is read at its own place", () => {
    const large = Uint8Array.from({ length: 40 }, (_, i) => i);
    expect(uuidText(large.subarray(8, 24))).toBe("08090a0b-0c0d-0e0f-1011-121314151617");
  });
});

describe("random names", () => {
  test("have the length asked for and use every letter and digit evenly", () => {
    expect(randomName(8)).toMatch(/^[a-z0-9]{8}$/);
    const text = randomName(360_000);
    const counts = Map.groupBy(text, (letter) => letter);
    expect([...counts.keys()].toSorted().join("")).toBe("0123456789abcdefghijklmnopqrstuvwxyz");
    // 10,000 each are expected with a deviation of 99. A fair draw stays within eight of those, while
    // bytes taken modulo 36 would give four of the letters 11,250.
    for (const letters of counts.values()) expect(Math.abs(letters.length - 10_000)).toBeLessThan(800);
  });

  test("tickets are 128 bits in hex and never the same", () => {
    const tickets = Array.from({ length: 1_000 }, () => randomTicket());
    expect(tickets.every((ticket) => /^[0-9a-f]{32}$/.test(ticket))).toBe(true);
    expect(new Set(tickets).size).toBe(tickets.length);
  });
});
