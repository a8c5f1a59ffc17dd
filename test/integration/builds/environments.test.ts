import { mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { dropEnvironment, sweepEnvironments } from "../../../src/apps/builds/environments.ts";
import type { PreparedBuild } from "../../../src/apps/builds/commands.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { buildPlace, evaluate } from "./site.ts";
import { testIndex, writeWheels } from "./wheels.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const WHEELS = [
  { name: "one", version: "1.0" },
  { name: "two", version: "1.0" },
];
const REUSED = "dependencies unchanged, reusing the environment";
const HOUR_MS = 60 * 60 * 1000;
/** No version uses any. */
const nobody = async (): Promise<ReadonlySet<string>> => new Set();

describe("environments", () => {
  verifies("deploy.env-cache", "of two builds at once one installs and the other waits", async () => {
    const place = await buildPlace();
    const wheels = await writeWheels(path.join(place.directory, "wheels"), WHEELS);
    const index = await testIndex(wheels);
    const host = place.withIndex(index.url);
    const builds = await Promise.all(
      [1, 2].map(() => place.begin({ "requirements.txt": "one\n" }, { host })),
    );
    const [first, second] = await Promise.all(builds.map(({ done }) => done));
    expect(second).toEqual(first);
    expect(index.asked.filter((url) => url.startsWith("/files/"))).toHaveLength(1);
    expect(builds.flatMap(({ lines }) => lines).filter((line) => line === REUSED)).toHaveLength(1);
  });

  verifies(
    "shared.folders",
    "unused and unfinished environments are removed, those in use and new ones stay",
    async () => {
      const place = await buildPlace();
      const root = path.join(place.dataDir, "environments");
      const now = Date.now();
      const make = async (name: string, ageHours: number | null): Promise<string> => {
        const folder = path.join(root, name);
        await mkdir(path.join(folder, "lib"), { recursive: true });
        if (ageHours === null) return folder;
        await writeFile(path.join(folder, "ready"), "");
        const time = new Date(now - ageHours * HOUR_MS);
        await utimes(path.join(folder, "ready"), time, time);
        return folder;
      };
      const used = await make("aaaa", 100);
      await make("bbbb", 100);
      await make("cccc", 23);
      await make("dddd", null);
      await make("p-1-own-eeee", 4);
      await make("p-1-own-ffff", 2);
      const ages = { keepMs: DAY_MS, now };
      // Another service may be busy with it.
      await sweepEnvironments(place.dataDir, async () => new Set([used]), { ...ages, unfinishedMs: HOUR_MS });
      expect((await place.environments()).toSorted()).toEqual(["aaaa", "cccc", "dddd", "p-1-own-ffff"]);
      await sweepEnvironments(place.dataDir, async () => new Set([used]), ages);
      expect((await place.environments()).toSorted()).toEqual(["aaaa", "cccc", "p-1-own-ffff"]);
      await sweepEnvironments(path.join(place.directory, "nowhere"), nobody, { keepMs: DAY_MS });
    },
  );

  verifies(
    "deploy.env-held",
    "what a build uses stays until its version is stored, and then for that",
    async () => {
      const place = await buildPlace();
      const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), WHEELS));
      const host = place.withIndex(index.url);
      const files = { "requirements.txt": "one\n" };
      const whileKept: number[] = [];
      const keep = async ({ environment }: PreparedBuild): Promise<void> => {
        // The app whose version used it last is deleted, and an operator keeps nothing unused.
        await dropEnvironment(environment!, Number.POSITIVE_INFINITY, nobody);
        await sweepEnvironments(place.dataDir, nobody, { keepMs: 0, now: Number.POSITIVE_INFINITY });
        whileKept.push((await place.environments()).length);
      };
      const made = await place.build(files, { host, keep });
      const reused = await place.build(files, { host, keep });
      expect(reused.lines).toContain(REUSED);
      expect(whileKept).toEqual([1, 1]);
      const environment = made.result.environment!;

      // The version is stored after somebody has begun to look who uses it.
      let isStored = false;
      const looking = async (): Promise<ReadonlySet<string>> => {
        const found = new Set(isStored ? [environment] : []);
        isStored = true;
        return found;
      };
      await sweepEnvironments(place.dataDir, looking, { keepMs: 0, now: Number.POSITIVE_INFINITY });
      expect(await evaluate(path.join(environment, "bin", "python"), "import one; print('there')")).toBe(
        "there",
      );
      expect((await place.build(files, { host })).lines).toContain(REUSED);
      await dropEnvironment(environment, Number.POSITIVE_INFINITY, nobody);
      expect(await place.environments()).toEqual([]);
    },
  );

  test("what is being made is not swept", async () => {
    const place = await buildPlace();
    const wheels = await writeWheels(path.join(place.directory, "wheels"), WHEELS);
    const index = await testIndex(wheels, { silentFor: "one" });
    const cancelling = new AbortController();
    const host = place.withIndex(index.url);
    const build = await place.begin({ "requirements.txt": "one\n" }, { host, signal: cancelling.signal });
    await until("the index was asked", () => index.asked.length > 0);
    await sweepEnvironments(place.dataDir, nobody, { keepMs: DAY_MS });
    const [name = ""] = await place.environments();
    expect(await readFile(path.join(place.dataDir, "environments", name, "pyvenv.cfg"), "utf8")).toMatch(
      /home/,
    );
    cancelling.abort();
    await expect(build.done).rejects.toBe(cancelling.signal.reason);
    expect(await place.environments()).toEqual([]);
  });
});
