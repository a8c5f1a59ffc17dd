import { mapped, matching } from "./readers.ts";

/** Ids of users and groups, both ends included. */
export type UidRange = { readonly first: number; readonly last: number };

/** The highest that the kernel takes; the one above means "no user". */
const HIGHEST = 0xfffffffe;
/** Below are the users of the system. */
const LOWEST = 1_000;

/** Takes two ids with a hyphen between them. */
export const uidRange = mapped(
  matching(
    `two ids from ${LOWEST} to ${HIGHEST} with a hyphen between them, the lower one first`,
    (text) => parse(text) !== null,
  ),
  (text) => parse(text) as UidRange,
);

function parse(text: string): UidRange | null {
  const [, first, last] = (/^(\d{1,10})-(\d{1,10})$/.exec(text) ?? []).map(Number);
  if (first === undefined || last === undefined) return null;
  return first >= LOWEST && first <= last && last <= HIGHEST ? { first, last } : null;
}
