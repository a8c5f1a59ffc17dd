import { defineConfig } from "vitest/config";

const project = (name: string, timeoutMs: number) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], testTimeout: timeoutMs, hookTimeout: 60_000 },
});

// Minutes long, and about figures more than faults: only `npm run test:scale` asks for them.
const scale = process.argv.includes("scale") ? [project("scale", 3_600_000)] : [];

export default defineConfig({
  test: {
    reporters: ["default"],
    // Two files at a time: real processes need the cores more than the runner does.
    maxWorkers: 2,
    projects: [project("unit", 5_000), project("integration", 30_000), project("faults", 60_000), ...scale],
  },
});
