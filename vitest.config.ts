import { defineConfig } from "vitest/config";

const project = (name: string, timeoutMs: number, more: { retry?: number; isolate?: boolean } = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: timeoutMs,
    hookTimeout: 60_000,
    ...more,
  },
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
    projects: [
      // Files of a worker share their modules: loading them anew for each took longer than the tests.
      project("unit", 5_000, { isolate: false }),
      // What measures real processes on a shared machine has a second try; the last lines of `.ci/run` name each
      // test that needed it.
      project("integration", 30_000, { retry: 1 }),
      project("faults", 60_000, { retry: 1 }),
      ...scale,
    ],
  },
});
