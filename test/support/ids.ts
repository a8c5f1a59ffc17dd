import { UuidSource } from "../../src/kit/ids.ts";

let source = new UuidSource();
let latestMs = 0;

/**
 * An id of that time, whatever times came before; those of one time, or of a growing one, sort by birth. Thousands
 * of one millisecond run ahead of it: they want a source of their own.
 */
export function uuidv7(ms: number): string {
  if (ms < latestMs) source = new UuidSource();
  latestMs = ms;
  return source.next(ms);
}
