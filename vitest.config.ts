import { defineConfig } from "vitest/config";

const project = (name: string, timeoutMs: number, retry = 0) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], testTimeout: timeoutMs, hookTimeout: 60_000, retry },
});

// Minutes long, and about figures more than faults: only `npm run test:scale` asks for them.
const isScale = process.argv.includes("scale");
const scale = isScale ? [project("scale", 3_600_000)] : [];

export default defineConfig({
  test: {
    reporters: ["default"],
    // Three files at a time: most of a test's time is waiting for real processes, which need the cores themselves.
    // What measures runs alone.
    maxWorkers: isScale ? 1 : 3,
    // What measures real processes on a shared machine has a second try; the last lines of `.ci/run` name each
    // test that needed it.
    projects: [
      project("unit", 5_000),
      project("integration", 30_000, 1),
      project("faults", 60_000, 1),
      ...scale,
    ],
  },
});
