import { DATABASE_KINDS } from "./databases.ts";
import type { DatabaseKind } from "./databases.ts";

/**
 * How much a fault test does: a `glance` beside all other tests, the `short` form for who asks for the fault tests
 * (`npm run test:faults`), or the `full` one (`MILLRACE_FAULTS=full`).
 */
export type FaultLength = "glance" | "short" | "full";

/** What this run of the tests asks for. */
export const FAULT_LENGTH: FaultLength =
  process.env["MILLRACE_FAULTS"] === "full"
    ? "full"
    : process.env["MILLRACE_FAULTS_ALONE"] === "true"
      ? "short"
      : "glance";

/** Where a fault is tried that is met above the store, by the same code on both: beside all other tests on one of them. */
export function faultDatabases(one: DatabaseKind): readonly DatabaseKind[] {
  return FAULT_LENGTH === "glance" ? [one] : DATABASE_KINDS;
}
