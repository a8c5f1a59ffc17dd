import type { FastifyReply } from "fastify";
import { type Clock, systemClock } from "../../kit/clock.ts";
import { FairLane, type LaneLimits, type Leave } from "../../kit/concurrency.ts";
import { AppError } from "../../model/errors.ts";

/** The cost of a request: little, a long database read, or a connection while bytes are transferred. */
export type Lane = "quick" | "heavy" | "transfer";

/** What a request counts for; without a token it is the network address. */
export type Payers =
  | { readonly token: string; readonly project: string | null }
  | { readonly address: string };

export type Turn = <Result>(work: () => Result | Promise<Result>) => Promise<Result>;

const WITHOUT_END = Number.POSITIVE_INFINITY;
const LONG_MS = 10_000;

/**
 * Concurrent requests of one token or address. A quick request takes a database thread for a fraction of a millisecond, so
 * 32 of them do not delay others. Bodies are read after this limit, so it limits their bytes too.
 */
const ONE_PAYER: Readonly<Record<Lane, LaneLimits>> = {
  quick: { total: WITHOUT_END, perKey: 32, waiting: 256, waitMs: LONG_MS },
  heavy: { total: WITHOUT_END, perKey: 4, waiting: 128, waitMs: LONG_MS },
  transfer: { total: WITHOUT_END, perKey: 64, waiting: 128, waitMs: LONG_MS },
};

/**
 * The same by project. Heavy reads of all projects share a thread, and go one after the other in each. Their turns
 * are those of the thread, so they last as long as the read: a slow reader does not block the thread, and a client that
 * disconnects does not free it early.
 */
const ONE_PROJECT: Readonly<Record<Lane, LaneLimits>> = {
  ...ONE_PAYER,
  heavy: { total: 2, perKey: 1, waiting: 128, waitMs: LONG_MS },
};

/** In seconds. */
const RETRY_AFTER: Readonly<Record<Lane, string>> = { quick: "1", heavy: "5", transfer: "5" };

type Lanes = Readonly<Record<Lane, FairLane>>;

/** Limits the concurrent requests of each project, token and address, so that none can block the others. */
export class Shares {
  readonly #byPayer: Lanes;
  readonly #byProject: Lanes;

  constructor(clock: Clock = systemClock) {
    this.#byPayer = lanesOf(ONE_PAYER, clock);
    this.#byProject = lanesOf(ONE_PROJECT, clock);
  }

  /**
   * Waits for a request's turn, in which its work is done; throws `too_many_in_flight`. The turn lasts until the answer is
   * sent; that of a heavy read lasts so long only for its payer, so that large unread answers do not pile up.
   */
  async take({ raw }: FastifyReply, lane: Lane, payers: Payers): Promise<Turn> {
    const gone = new AbortController();
    const onClose = (): void => gone.abort();
    raw.once("close", onClose);
    const enter = async (lanes: Lanes, key: string): Promise<Leave> => {
      const leave = await lanes[lane].enter(key, gone.signal);
      if (!leave) throw new AppError("too_many_in_flight", { headers: { "retry-after": RETRY_AFTER[lane] } });
      raw.once("close", leave);
      // It may have closed in the same moment.
      if (raw.destroyed) leave();
      return leave;
    };
    // Always in this order, to avoid deadlocks.
    await enter(this.#byPayer, "token" in payers ? payers.token : payers.address);
    const project = "token" in payers ? payers.project : null;
    const leaveProject = project === null ? null : await enter(this.#byProject, project);
    raw.off("close", onClose);
    if (lane !== "heavy" || !leaveProject) return async (work) => await work();
    return async (work) => {
      raw.off("close", leaveProject);
      try {
        return await work();
      } finally {
        leaveProject();
      }
    };
  }
}

function lanesOf(limits: Readonly<Record<Lane, LaneLimits>>, clock: Clock): Lanes {
  return {
    quick: new FairLane(limits.quick, clock),
    heavy: new FairLane(limits.heavy, clock),
    transfer: new FairLane(limits.transfer, clock),
  };
}
