import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/fair-lane.ts";
import { AppError } from "../model/errors.ts";

/** Of what is smaller much is stored at once. */
const LITTLE_BYTES = 64 * 1024;
/** More at once are stored no faster, and all would be done at the end. */
const LIMITS = { total: 16, perKey: 8, waiting: 256, waitMs: 4_000 };
/** Each call with a key is a transaction of its own: many of one app would leave no connection to others. */
const KEYED = { total: 64, perKey: 32, waiting: 10_000, waitMs: 4_000 };
const CROWDED = {
  message: "More is sent than can be stored right now; nothing was accepted. Try again shortly.",
  headers: { "retry-after": "1" },
};

type Input = { readonly appNumber: number; readonly bytes: number; readonly isBlob: boolean };

/**
 * The turns of apps in which large inputs, and calls with a key, are stored: those of one app, however many, leave room for
 * others', and who would have to wait for too long is refused before anything is stored. A blob store that hangs holds up no
 * input that is a row.
 */
export class InputTurns {
  readonly #rows: FairLane;
  readonly #blobs: FairLane;
  readonly #keyed: FairLane;

  constructor(clock: Clock) {
    this.#rows = new FairLane(LIMITS, clock);
    this.#blobs = new FairLane(LIMITS, clock);
    this.#keyed = new FairLane(KEYED, clock);
  }

  /** Stores an input of that many bytes in its app's turn; throws `storage_unavailable` where there are too many. */
  async take<Result>({ appNumber, bytes, isBlob }: Input, store: () => Promise<Result>): Promise<Result> {
    if (bytes <= LITTLE_BYTES) return await store();
    return await inTurn(isBlob ? this.#blobs : this.#rows, appNumber, store);
  }

  /** The same of a call with a key, whatever its size. */
  async takeKeyed<Result>(appNumber: number, store: () => Promise<Result>): Promise<Result> {
    return await inTurn(this.#keyed, appNumber, store);
  }
}

async function inTurn<Result>(
  lane: FairLane,
  appNumber: number,
  store: () => Promise<Result>,
): Promise<Result> {
  const leave = await lane.enter(String(appNumber));
  if (!leave) throw new AppError("storage_unavailable", CROWDED);
  try {
    return await store();
  } finally {
    leave();
  }
}
