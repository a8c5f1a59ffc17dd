import path from "node:path";
import { defineConfig } from "vitest/config";
import type { VitestPluginContext } from "vitest/node";
import { builtPackage } from "./test/support/built-package.ts";
import { pathWithPython } from "./test/support/pythons.ts";

type More = { readonly isolate?: boolean; readonly globalSetup?: string[]; readonly include?: string[] };

const project = (name: string, timeoutMs: number, more: More = {}) => ({
  plugins: [threadsAsBuilt],
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    // The one deadline of a test: generous, since a test fails when something is broken and not when it is late.
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    setupFiles: ["test/support/setup.ts"],
    // The projects share most of their modules: each is transformed once for all, and not again while it stays as it is.
    fsModuleCache: true,
    env: {
      MILLRACE_TEST_PACKAGE: built,
      PATH: searchPath,
      MILLRACE_FAULTS_ALONE: String(isFaultsAlone),
      MILLRACE_WALLS_WHOLE: String(isWalls),
      MILLRACE_DASHBOARD_WHOLE: String(isDashboard),
    },
    ...more,
  },
});

/** Some fault tests take minutes where these alone were asked for, and are a glance beside all others. */
const isFaultsAlone = process.argv.includes("faults");

/** Where the sources were bundled. Commands and threads of tests start from there, in a quarter of the time. */
const built = await builtPackage();

/** The real Python first: a shim takes longer than the program that it looks for, and hundreds are started. */
const searchPath = pathWithPython();

/** What files of the sources import is in the tests a file of `test/support/`, which says why. */
const REPLACED = new Map([
  ["store/sqlite/thread-client.ts ./database-worker.ts", "kept-workers.ts"],
  ["host/start-host.ts ./interpreter.ts", "known-interpreter.ts"],
  ["host/limits/find-hierarchy.ts ./try-group.ts", "tried-groups.ts"],
]);
const importers = Array.from(REPLACED.keys(), (key) => `/src/${key.split(" ")[0]}`);

const threadsAsBuilt = {
  name: "threads-as-built",
  enforce: "pre" as const,
  // What is below depends on more than the file itself.
  configureVitest: ({ defineCacheKeyGenerator }: VitestPluginContext) =>
    defineCacheKeyGenerator(({ id }) =>
      [...importers, "/src/config/package-files.ts"].some((file) => id.endsWith(file)) ? false : null,
    ),
  resolveId: (source: string, from: string | undefined) => {
    const file = REPLACED.get(`${from?.split("/src/").at(-1)} ${source}`);
    return file && path.join(import.meta.dirname, "test", "support", file);
  },
  transform: (code: string, id: string) =>
    id.endsWith("/src/config/package-files.ts")
      ? code
          .replace("findPackage(import.meta.dirname)", JSON.stringify(built))
          .replace('import.meta.url.endsWith(".js")', "true")
      : undefined,
};

// Minutes long, about figures more than faults, or in need of podman, S3 or a cluster: only `npm run test:scale`,
// `test:soak`, `test:walls`, `test:dashboard`, `test:images`, `test:cluster`, `test:kubernetes`, `test:ray` and
// `test:smoke` ask for them.
const isScale = process.argv.includes("scale");
const isWalls = process.argv.includes("walls");
/** What every test run tries in short, too. */
const WALLS = ["test/walls/**/*.test.ts", "test/integration/walls/**/*.test.ts"];
const isDashboard = process.argv.includes("dashboard");
const DASHBOARD = ["test/integration/dashboard/**/*.test.ts"];
const isImages = process.argv.includes("images");
const isCluster = process.argv.includes("cluster");
const isKubernetes = process.argv.includes("kubernetes");
const isRay = process.argv.includes("ray");
/** Both in short, which `.ci/run` asks for. */
const isSmoke = process.argv.includes("smoke");
const isSoak = process.argv.includes("soak");
/** Beside the load: for the last runs and webhooks to end, which may wait for another try. */
const SOAK_END_MS = 900_000;
const soakMs = Number(process.env["MILLRACE_SOAK_MINUTES"] ?? 1) * 60_000 + SOAK_END_MS;
const withCluster = {
  globalSetup: [
    "test/support/shared-postgres.ts",
    "test/support/made-once.ts",
    "test/support/kubernetes/cluster-setup.ts",
  ],
};
const shared = { globalSetup: ["test/support/shared-postgres.ts", "test/support/made-once.ts"] };

export default defineConfig({
  test: {
    reporters: ["default"],
    // More files at a time than cores: part of a test's time is waiting for real processes. What measures runs alone.
    maxWorkers:
      isScale || isSoak || isWalls || isImages || isCluster || isKubernetes || isRay || isSmoke ? 1 : 6,
    projects: [
      // Files of a worker share their modules: loading them anew for each took longer than the tests.
      project("unit", 300_000, { isolate: false }),
      project("integration", 600_000, { isolate: false, ...shared }),
      project("faults", 600_000, { isolate: false, ...shared }),
      ...(isScale ? [project("scale", 3_600_000, shared)] : []),
      ...(isWalls ? [project("walls", 1_800_000, { ...shared, include: WALLS })] : []),
      ...(isDashboard
        ? [project("dashboard", 600_000, { isolate: false, ...shared, include: DASHBOARD })]
        : []),
      ...(isImages ? [project("images", 600_000, shared)] : []),
      ...(isCluster ? [project("cluster", 1_800_000, shared)] : []),
      ...(isKubernetes ? [project("kubernetes", 900_000, withCluster)] : []),
      ...(isSmoke ? [project("smoke", 180_000, withCluster)] : []),
      ...(isRay ? [project("ray", 600_000, shared)] : []),
      ...(isSoak ? [project("soak", soakMs, shared)] : []),
    ],
  },
});
