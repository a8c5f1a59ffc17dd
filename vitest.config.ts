import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Database threads of the services that tests start load one file instead of hundreds. */
const bundled = [
  {
    find: /^\.\/thread-script\.ts$/,
    replacement: fileURLToPath(new URL("test/support/thread-script.ts", import.meta.url)),
  },
];

const project = (
  name: string,
  timeoutMs: number,
  more: { isolate?: boolean; globalSetup?: string[]; alias?: typeof bundled } = {},
) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    // The one deadline of a test: generous, since a test fails when something is broken and not when it is late.
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    setupFiles: ["test/support/explain.ts"],
    ...more,
  },
});

// Minutes long, and about figures more than faults: only `npm run test:scale` asks for them.
const isScale = process.argv.includes("scale");
const services = {
  globalSetup: ["test/support/shared-postgres.ts", "test/support/bundle-thread.ts"],
  alias: bundled,
};

export default defineConfig({
  test: {
    reporters: ["default"],
    // More files at a time than cores: most of a test's time is waiting for real processes. What measures runs alone.
    maxWorkers: isScale ? 1 : 4,
    projects: [
      // Files of a worker share their modules: loading them anew for each took longer than the tests.
      project("unit", 60_000, { isolate: false }),
      project("integration", 180_000, { isolate: false, ...services }),
      project("faults", 300_000, { isolate: false, ...services }),
      ...(isScale ? [project("scale", 3_600_000, services)] : []),
    ],
  },
});
