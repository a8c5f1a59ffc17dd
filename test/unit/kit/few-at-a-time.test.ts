import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { FewAtATime } from "../../../src/kit/listener/few-at-a-time.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "listener.crowd",
  "thousands whose time is over at once leave the loop free in between",
  async () => {
    const work = new FewAtATime();
    const done: number[] = [];
    for (let piece = 0; piece < 1_000; piece++) work.add(() => done.push(piece));
    expect(done).toEqual([]);
    let before = 0;
    while (done.length < 1_000) {
      await setImmediate();
      expect(done.length - before).toBeLessThanOrEqual(32);
      before = done.length;
    }
    expect(done).toEqual(Array.from({ length: 1_000 }, (_, piece) => piece));
    work.add(() => done.push(-1));
    await setImmediate();
    await setImmediate();
    expect(done.at(-1)).toBe(-1);
  },
);
