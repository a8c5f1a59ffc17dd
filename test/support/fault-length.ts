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
