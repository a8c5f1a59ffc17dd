import { uuidBytes } from "../kit/ids.ts";
import { chunks } from "./chunks.ts";
import { PENDING } from "./delivery-columns.ts";
import type { Session } from "./operation.ts";
import { webhookStateCode } from "./run-columns.ts";

type Redelivery = {
  readonly projectId: string;
  /** Of these runs. */
  readonly ids?: readonly string[];
  /** Made at this time or later. */
  readonly from?: number;
  /** Made before this time. */
  readonly to?: number;
  readonly now: number;
};

/** Makes a project's deliveries that have ended and still have a body due again; returns how many. */
export async function redeliver({ db }: Session, input: Redelivery): Promise<number> {
  const { projectId, ids, from, to, now } = input;
  let count = 0;
  for (const some of ids ? chunks(ids.map(uuidBytes)) : [null]) {
    let query = db
      .updateTable("deliveries")
      .set({ state: PENDING, nextAt: now, updatedAt: now, owner: null })
      .where("state", "<>", (eb) => eb.lit(PENDING))
      .where("body", "is not", null)
      .where("appNumber", "in", (eb) =>
        eb.selectFrom("apps").select("number").where("projectId", "=", projectId),
      );
    if (some) query = query.where("id", "in", some);
    if (from !== undefined) query = query.where("createdAt", ">=", from);
    if (to !== undefined) query = query.where("createdAt", "<", to);
    const rows = await query.returning(["appNumber", "id"]).execute();
    count += rows.length;
    for (const [appNumber, group] of Map.groupBy(rows, (row) => row.appNumber)) {
      for (const runIds of chunks(group.map(({ id }) => id))) {
        await db
          .updateTable("runs")
          .set({ webhookState: webhookStateCode("pending"), updatedAt: now })
          .where("appNumber", "=", appNumber)
          .where("id", "in", runIds)
          .execute();
      }
    }
  }
  return count;
}

/** How many a redelivery of that span would make due again now. */
export async function countRedeliverable(
  { db }: Session,
  { projectId, from, to }: { readonly projectId: string; readonly from: number; readonly to: number },
): Promise<number> {
  const row = await db
    .selectFrom("deliveries")
    .select((eb) => eb.fn.countAll<number>().as("count"))
    .where("state", "<>", (eb) => eb.lit(PENDING))
    .where("body", "is not", null)
    .where("appNumber", "in", (eb) =>
      eb.selectFrom("apps").select("number").where("projectId", "=", projectId),
    )
    .where("createdAt", ">=", from)
    .where("createdAt", "<", to)
    .executeTakeFirstOrThrow();
  return row.count;
}
