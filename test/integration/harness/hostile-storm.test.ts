import { expectStormHarmless } from "../../support/hostile/expect-storm.ts";
import { verifies } from "../../verifies.ts";

verifies(
  ["show.hostile.lives", "show.hostile.memory", "show.hostile.answers", "show.hostile.neighbour"],
  "2,000 hostile cases on every kind of connection harm nobody",
  () => expectStormHarmless(2_000),
  600_000,
);
