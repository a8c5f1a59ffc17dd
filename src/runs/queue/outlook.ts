import type { Clock } from "../../kit/clock.ts";
import { expectedStartAt } from "../../model/queue-pace.ts";
import type { QueuePlace, Run, RunKey } from "../../model/run.ts";
import type { Call } from "../../replicas/call.ts";
import type { RunTarget } from "../../replicas/pool.ts";
import type { SlotsOutlook } from "../../replicas/slots/slots.ts";
import type { TurnsQuery } from "../../store/runs/turns.ts";
import type { Store } from "../../store/store.ts";
import type { LiveRun } from "../live-run.ts";
import type { QueuePaces } from "./paces.ts";

export type OutlookParts = {
  readonly store: Pick<Store, "claims">;
  /** Runs are due by a clock that cannot be set. */
  readonly clock: Clock;
  readonly paces: QueuePaces;
  /** Null for an app that takes no runs here. */
  readonly target: (appNumber: number) => RunTarget | null;
  /** Whose turn it is among the lines of an app. */
  readonly turnOf: (appNumber: number) => Pick<TurnsQuery, "turn" | "weights">;
};

/** A run that has not begun, stored or on its way to a replica of this service. */
export type WaitingRun = RunKey & { readonly live: LiveRun | null };

const NO_CALLS: ReadonlySet<Call> = new Set();

/** Says of runs that wait how many are ahead of them, and when they will begin. */
export class QueueOutlook {
  readonly #parts: OutlookParts;

  constructor(parts: OutlookParts) {
    this.#parts = parts;
  }

  /** Null for a run that has begun, has ended, or is delayed. */
  async of(run: Run, live: LiveRun | null): Promise<QueuePlace | null> {
    if (run.state !== "queued" || run.dueAt !== null) return null;
    if (live) return this.ofLive(live, live.request.target.slots.outlook(new Set([live.call])));
    if (!run.isAsync) return null;
    const position = await this.positionOf(run);
    return position === null ? null : this.ofStored(run.appNumber, position);
  }

  /** Among the stored runs; null if it does not wait for its turn there. */
  async positionOf({ appNumber, id }: RunKey): Promise<number | null> {
    const { store, turnOf } = this.#parts;
    return await store.claims.position({ appNumber, id, ...turnOf(appNumber) });
  }

  /** The place of a run that waits for a slot; null if it does not. */
  ofLive({ call, request }: LiveRun, { ranks, phase }: SlotsOutlook<Call>): QueuePlace | null {
    const rank = ranks.get(call);
    if (rank === undefined || call.hasEnded) return null;
    const { appNumber } = request.target;
    // How fast callers are served was not observed: the queue of stored runs has its own lane.
    return this.#placed(appNumber, rank, phase, call.lane === "caller");
  }

  /** The place of a stored run at that position: behind those that already wait for a slot. */
  ofStored(appNumber: number, position: number): QueuePlace {
    const slots = this.#parts.target(appNumber)?.slots.outlook(NO_CALLS);
    return this.#placed(appNumber, position + (slots?.backlog ?? 0), slots?.phase ?? null, false);
  }

  #placed(
    appNumber: number,
    position: number,
    phase: QueuePlace["phase"] | null,
    isCaller: boolean,
  ): QueuePlace {
    const { paces, clock } = this.#parts;
    const pace = paces.of(appNumber);
    const known = pace && (isCaller ? { ...pace, departures: [] } : pace);
    const expected = known && expectedStartAt(position, known, clock.now());
    return { position, expectedStartAt: expected, phase: phase ?? "queued" };
  }
}
