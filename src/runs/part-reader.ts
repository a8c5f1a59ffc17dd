import type { Clock } from "../kit/clock.ts";
import { FairLane } from "../kit/fair-lane.ts";
import { AppError } from "../model/errors.ts";
import type { RunKey } from "../model/run.ts";
import type { TranscriptPart } from "../model/transcript-part.ts";
import type { Store } from "../store/store.ts";

/** More at once are read no faster, and every other read of the database would wait behind them. */
const LIMITS = { total: 4, perKey: 2, waiting: 20_000, waitMs: 30_000 };
const CROWDED = {
  message: "More transcripts are being read than the database can keep up with; try again shortly.",
  headers: { "retry-after": "5" },
};

/** Reads stored parts of transcripts, a few at a time; apps take turns. */
export class PartReader {
  readonly #store: Pick<Store, "transcripts">;
  readonly #lane: FairLane;

  constructor(store: Pick<Store, "transcripts">, clock: Clock) {
    this.#store = store;
    this.#lane = new FairLane(LIMITS, clock);
  }

  /** The part that holds the event after `after`; if that one is gone, the first later part. */
  async next(key: RunKey, after: number): Promise<TranscriptPart | null> {
    const { appNumber, id } = key;
    return await this.#inTurn(appNumber, () => this.#store.transcripts.next({ appNumber, id, after }));
  }

  /** The number of the last stored event; 0 if none is stored. */
  async last({ appNumber, id }: RunKey): Promise<number> {
    return await this.#inTurn(appNumber, () => this.#store.transcripts.last({ appNumber, id }));
  }

  async #inTurn<Result>(appNumber: number, read: () => Promise<Result>): Promise<Result> {
    const leave = await this.#lane.enter(String(appNumber));
    if (!leave) throw new AppError("overloaded", CROWDED);
    try {
      return await read();
    } finally {
      leave();
    }
  }
}
