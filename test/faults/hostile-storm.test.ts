import { verifies } from "../verifies.ts";
import { expectStormHarmless } from "../support/hostile/expect-storm.ts";

const CASES = process.env["MILLRACE_FAULTS"] === "full" ? 100_000 : 600;

verifies(
  "show.hostile",
  `${CASES.toLocaleString("en")} hostile cases on every kind of connection harm nobody`,
  () => expectStormHarmless(CASES),
  2 * 3_600_000,
);
