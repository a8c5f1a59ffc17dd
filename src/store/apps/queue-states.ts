import { QUEUE_STATES, type QueueState } from "../../model/queue-limits.ts";
import { isNoted } from "../nodes/changes.ts";
import { read, write } from "../operation.ts";
import { all, firstOf } from "../queries.ts";

/** What an app's queue does, and since when; null: since the app was made. */
export type StoredQueueState = { readonly state: QueueState; readonly changedAt: number | null };

type QueueChange = { readonly appNumber: number; readonly state: QueueState; readonly now: number };

const OPEN = QUEUE_STATES.indexOf("open");

/** The states of apps' queues. They outlive deploys. */
export const queueStates = {
  find: read(async ({ db }, appNumber: number): Promise<StoredQueueState | null> => {
    const row = await firstOf(
      db
        .selectFrom("apps")
        .select(["queueState", "queueChangedAt"])
        .where(all({ number: appNumber, deletedAt: null })),
    );
    return row && { state: stateOf(row.queueState), changedAt: row.queueChangedAt };
  }),

  /** The apps whose queues are not open, of these apps or of all. */
  closed: read(
    async ({ db }, appNumbers: readonly number[] | null): Promise<(readonly [number, QueueState])[]> => {
      const closed = db
        .selectFrom("apps")
        .select(["number", "queueState"])
        .where("queueState", "<>", OPEN)
        .where("deletedAt", "is", null);
      const rows = await (appNumbers ? closed.where("number", "in", appNumbers) : closed).execute();
      return rows.map(({ number, queueState }) => [number, stateOf(queueState)]);
    },
  ),

  /** False if there is no such app, or if its queue is in that state already. */
  change: write(async (session, { appNumber, state, now }: QueueChange): Promise<boolean> => {
    const queueState = QUEUE_STATES.indexOf(state);
    const change = session.db
      .updateTable("apps")
      .set({ queueState, queueChangedAt: now })
      .where(all({ number: appNumber, deletedAt: null }))
      .where("queueState", "<>", queueState);
    return await isNoted(session, change, "queue", appNumber);
  }),
};

/** A state that only a later release knows is taken for paused: nothing is lost by waiting. */
function stateOf(code: number): QueueState {
  return QUEUE_STATES[code] ?? "paused";
}
