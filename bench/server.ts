import { SERVER_SIDES, SIDE_NAMES, startSide } from "./server-subjects.ts";
import type { Subject } from "./subject.ts";

/** The calls of `bench server`: the same app three times. */
export const SERVER_SUBJECTS: readonly Subject[] = SERVER_SIDES.map((side) => ({
  id: side,
  name: SIDE_NAMES[side],
  expects: '"hello ada"',
  start: () => startSide(side, "run"),
}));
