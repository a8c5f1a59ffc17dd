import { backoffMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import { insist } from "../../kit/insist.ts";
import type { SeatProof, SeatRecords } from "./seat-records.ts";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** Without an answer its agent ends by itself in the end, and its place then. */
const MAX_TRIES = 10;

export type StrikeParts = {
  readonly records: Pick<SeatRecords, "remove">;
  readonly clock: Clock;
  /** Of the first try that fails. */
  readonly onError: (error: unknown) => void;
};

/** Takes a seat off the records: whoever comes back for it is told to end. False if another service may have it by now. */
export async function strikeOff(
  seat: Pick<SeatProof, "id" | "fence">,
  { records, clock, onError }: StrikeParts,
): Promise<boolean> {
  let tries = 0;
  const isOurs = await insist(() => records.remove(seat), {
    clock,
    gapMs: (failures) => backoffMs(failures, FIRST_WAIT_MS, LONGEST_WAIT_MS),
    goesOn: (error) => {
      if (tries++ === 0) onError(error);
      return tries < MAX_TRIES;
    },
  });
  return isOurs ?? false;
}
