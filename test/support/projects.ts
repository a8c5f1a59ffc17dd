/** What `npm test` runs: every test below the folders of `test/` with these names. */
export const EVERY_TIME = ["unit", "integration"] as const;

/**
 * What runs by name, with `npm run test:NAME`: variations of what `npm test` tries, tests that take minutes or measure,
 * and those that need podman, S3, a GPU, gigabytes of libraries or a cluster. `npm run test:all` runs all of them, in this
 * order, those of clusters beside the others.
 */
export const BY_NAME = [
  "thorough",
  "faults",
  "dashboard",
  "examples",
  "walls",
  "gpu",
  "images",
  "cluster",
  "scale",
  "soak",
  "smoke",
  "kubernetes",
  "ray",
] as const;

/** Those of them that measure, or that have a cluster for themselves: one file at a time. */
export const ALONE: readonly ByName[] = BY_NAME.slice(BY_NAME.indexOf("walls"));

/** A project of `vitest.config.ts` that `npm test` leaves out. */
export type ByName = (typeof BY_NAME)[number];
