/**
 * How much a fault test does: `minimal` beside all other tests, `short` in `npm run test:faults`, `full` with
 * `MILLRACE_FAULTS=full`.
 */
export type FaultLength = "minimal" | "short" | "full";

/** What this run of the tests asks for. */
export const FAULT_LENGTH: FaultLength =
  process.env["MILLRACE_FAULTS"] === "full"
    ? "full"
    : process.env["MILLRACE_FAULTS_ALONE"] === "true"
      ? "short"
      : "minimal";
