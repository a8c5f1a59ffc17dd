import { UuidSource } from "../../src/kit/ids.ts";

let source = new UuidSource();
let latestMs = 0;

/** An id of exactly that time, whatever times came before; those of one time, or of a growing one, sort by birth. */
export function uuidv7(ms: number): string {
  if (ms < latestMs) source = new UuidSource();
  latestMs = ms;
  return source.next(ms);
}
