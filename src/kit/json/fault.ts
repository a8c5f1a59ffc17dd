/** Why a body was refused: what is wrong and at which byte, never a piece of the body itself. */
export type JsonFault = { readonly message: string };

/** What a scan returns instead of the next offset when it met a fault. */
export const FAULTY = -1;

let foundReason = "";
let foundAt = 0;

/**
 * Notes a fault and returns `FAULTY`. A note, not an exception or an object per scan: the scans return plain
 * offsets, which keeps a faultless check free of allocations. One check runs at a time, without a pause.
 */
export function fault(reason: string, at: number): number {
  foundReason = reason;
  foundAt = at;
  return FAULTY;
}

/** The fault noted last, for the caller. */
export function notedFault(): JsonFault {
  return { message: `The body is not a valid JSON object: ${foundReason} at byte ${foundAt}.` };
}
