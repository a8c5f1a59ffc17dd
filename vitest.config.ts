import path from "node:path";
import { defineConfig } from "vitest/config";
import type { VitestPluginContext } from "vitest/node";
import { builtPackage } from "./test/support/built-package.ts";
import { ALONE } from "./test/support/projects.ts";
import type { ByName } from "./test/support/projects.ts";
import { pathWithPython } from "./test/support/pythons.ts";

/** Whether a project was asked for by name. */
const isAsked = (name: string): boolean => process.argv.includes(name);

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
      MILLRACE_BOTH_DATABASES: String(isAsked("thorough") || isAsked("faults")),
      MILLRACE_FAULTS_ALONE: String(isAsked("faults")),
      MILLRACE_WALLS_WHOLE: String(isAsked("walls")),
      MILLRACE_DASHBOARD_WHOLE: String(isAsked("dashboard")),
    },
    ...more,
  },
});

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

/** What `npm test` tries of these in short is part of them. */
const withShort = (name: ByName) => ({
  include: [`test/${name}/**/*.test.ts`, `test/integration/${name}/**/*.test.ts`],
});
/** Where `npm test` tries one database (`triedKinds`). */
const ON_BOTH = [
  "test/integration/{async,backup,batches,deploys,doctor,logs,management,webhooks}/**/*.test.ts",
];
/** Beside the load: for the last runs and webhooks to end, which may wait for another try. */
const SOAK_END_MS = 900_000;
const soakMs = Number(process.env["MILLRACE_SOAK_MINUTES"] ?? 1) * 60_000 + SOAK_END_MS;
const withPostgres = { globalSetup: ["test/support/shared-postgres.ts", "test/support/made-once.ts"] };
const withCluster = {
  globalSetup: [...withPostgres.globalSetup, "test/support/kubernetes/cluster-setup.ts"],
};
/** Files of a worker share their modules: loading them anew for each took longer than the tests. */
const shared = { isolate: false, ...withPostgres };

const everyTime = [project("unit", 300_000, { isolate: false }), project("integration", 600_000, shared)];

/** `test/support/projects.ts` says what these are, and why `npm test` leaves them out. */
const byName = [
  project("thorough", 600_000, { ...shared, include: ["test/thorough/**/*.test.ts", ...ON_BOTH] }),
  project("faults", 600_000, { ...shared, ...withShort("faults") }),
  project("dashboard", 600_000, { ...shared, ...withShort("dashboard") }),
  project("examples", 600_000, shared),
  project("walls", 1_800_000, { ...withPostgres, ...withShort("walls") }),
  project("gpu", 600_000),
  project("images", 600_000, withPostgres),
  project("cluster", 1_800_000, withPostgres),
  project("scale", 3_600_000, withPostgres),
  project("soak", soakMs, withPostgres),
  project("smoke", 180_000, withCluster),
  project("kubernetes", 900_000, withCluster),
  project("ray", 600_000, withPostgres),
];

export default defineConfig({
  test: {
    reporters: ["default"],
    // More files at a time than cores: part of a test's time is waiting for real processes. What measures runs alone.
    maxWorkers: ALONE.some(isAsked) ? 1 : 6,
    projects: [...everyTime, ...byName.filter(({ test }) => isAsked(test.name))],
  },
});
