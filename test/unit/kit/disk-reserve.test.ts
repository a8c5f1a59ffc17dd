import { expect, test } from "vitest";
import { DiskReserve } from "../../../src/kit/disk-reserve.ts";

// A file system that never has a free block.
const FULL = "/proc";

test("a disk with nothing left is full, also where nothing is kept back", async () => {
  const full = new DiskReserve(FULL, 0, { setting: "SOME_SETTING" });
  expect(full.isFull).toBe(false);
  await full.look();
  expect([full.isFull, full.isLow, full.shortage]).toEqual([true, false, null]);
  const kept = new DiskReserve(FULL, 1_000_000, { setting: "SOME_SETTING" });
  await kept.look();
  expect(kept.isLow).toBe(true);
  expect(kept.shortage).toContain("SOME_SETTING");
});

test("who is refused is told less room than is kept back, also where files hold more than that", async () => {
  const told = async (insideBytes: number): Promise<string | null> => {
    const options = { insideBytes: () => Promise.resolve(insideBytes), setting: "SOME_SETTING" };
    const reserve = new DiskReserve(FULL, 100_000_000, options);
    await reserve.look();
    return reserve.shortage;
  };
  const remedy = "make room, or lower SOME_SETTING.";
  expect(await told(70_000_000)).toBe(`The disk has 70 MB free, but 100 MB must stay free: ${remedy}`);
  expect(await told(300_000_000)).toBe(
    `The disk has 0 MB free, but 25 MB must stay free besides 300 MB inside the database: ${remedy}`,
  );
});

test("looks at once are one look: a disk that hangs holds one file thread, not all", async () => {
  let looks = 0;
  const disk = Promise.withResolvers<number>();
  const insideBytes = async (): Promise<number> => {
    looks += 1;
    return await disk.promise;
  };
  const reserve = new DiskReserve(FULL, 0, { insideBytes, setting: "SOME_SETTING" });
  const all = Promise.all([reserve.look(), reserve.look(), reserve.look()]);
  disk.resolve(0);
  await all;
  expect(looks).toBe(1);
  await reserve.look();
  expect(looks).toBe(2);
});
