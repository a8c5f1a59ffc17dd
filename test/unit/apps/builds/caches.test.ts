import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { cacheDir, makeCache } from "../../../../src/apps/builds/build-environment.ts";
import { scratchDirectory } from "../../../support/command-line.ts";
import { verifies } from "../../../verifies.ts";

const [PROJECT, USER] = ["p-cache000", 1234];

verifies("builds.own-cache", "builds of one project that begin at once share one cache", async (context) => {
  context.skip(process.getuid?.() !== 0, "only root gives files to others");
  for (const isAnothers of [false, true]) {
    const dataDir = scratchDirectory();
    const cache = cacheDir(dataDir, PROJECT);
    if (isAnothers) mkdirSync(path.join(cache, "old", "wheels"), { recursive: true });
    const begin = async (index: number): Promise<void> => {
      expect(await makeCache(dataDir, PROJECT, USER)).toBe(cache);
      expect(statSync(cache).uid).toBe(USER);
      writeFileSync(path.join(cache, `wheel-${index}`), "");
    };
    const indices = Array.from({ length: 50 }, (_, index) => index);
    const builds: Promise<void>[] = [];
    for (const index of indices) {
      builds.push(begin(index));
      await new Promise(setImmediate);
    }
    await Promise.all(builds);
    expect(readdirSync(cache).toSorted()).toEqual(indices.map((index) => `wheel-${index}`).toSorted());
    expect(readdirSync(path.dirname(cache))).toEqual([PROJECT]);
  }
});
