import type { ExpressionBuilder } from "kysely";
import { uuidBytes, uuidText } from "../kit/ids.ts";
import type { Delivery, DeliveryAttempt, DeliveryState } from "../model/delivery.ts";
import { DELIVERY_COLUMNS, PENDING, deliveryFromRow, deliveryStateCode } from "./delivery-columns.ts";
import { isAlive } from "./leases.ts";
import { read, write } from "./operation.ts";
import { countRedeliverable, redeliver } from "./redeliver.ts";
import { webhookStateCode } from "./run-columns.ts";
import type { Schema } from "./schema.ts";

/** A delivery that its claimer is to attempt now. */
export type DueDelivery = Delivery & { readonly projectId: string };

type Attempted = {
  readonly id: string;
  readonly owner: string;
  readonly attempt: DeliveryAttempt;
  /** Of the delivery, from now on. */
  readonly state: DeliveryState;
  readonly now: number;
};

type DeliveryFilter = {
  readonly projectId: string;
  readonly limit: number;
  readonly state?: DeliveryState;
  /** Only those of runs older than this one: the last id of the page before. */
  readonly before?: string;
};

/** Responses on their way to webhooks. A pending one may have an owner, who is making an attempt. */
export const deliveries = {
  /** Claims for the owner the deliveries that have been due longest and that no living owner holds. */
  claimDue: write(
    async (
      session,
      query: {
        readonly owner: string;
        readonly now: number;
        readonly limit: number;
        readonly maxBytes?: number;
      },
    ): Promise<DueDelivery[]> => {
      const { db } = session;
      const { owner } = query;
      const isFree = (eb: ExpressionBuilder<Schema, "deliveries">) =>
        eb.or([
          eb("owner", "is", null),
          eb.and([eb("owner", "<>", owner), eb.not(isAlive(session, eb.ref("deliveries.owner")))]),
        ]);
      const due = await db
        .selectFrom("deliveries")
        .select([
          "deliveries.id",
          session.sql<number | null>`coalesce(body_bytes, length(body))`.as("bodyBytes"),
        ])
        .where("state", "=", (eb) => eb.lit(PENDING))
        .where("nextAt", "<=", query.now)
        .where(isFree)
        .orderBy("nextAt")
        .limit(query.limit)
        .modifyEnd(session.skipLocked("deliveries"))
        .execute();
      if (due.length === 0) return [];
      const taken = await db
        .updateTable("deliveries")
        .set({ owner })
        .where("id", "in", fitting(due, query.maxBytes ?? Number.POSITIVE_INFINITY))
        // Once more, now that nobody else can change them: who took one while Postgres looked has a lease that was not
        // there when it began to look.
        .where(isFree)
        .returning("id")
        .execute();
      const ids = taken.map(({ id }) => id);
      if (ids.length === 0) return [];
      const rows = await db
        .selectFrom("deliveries")
        .innerJoin("apps", "apps.number", "deliveries.appNumber")
        .select(DELIVERY_COLUMNS.map((name) => `deliveries.${name}` as const))
        .select("apps.projectId")
        .where("deliveries.id", "in", ids)
        .orderBy("nextAt")
        .execute();
      return rows.map(({ projectId, ...row }) => ({ ...deliveryFromRow(row), projectId }));
    },
  ),

  /** When the next delivery that nobody holds is due; null when there is none. */
  nextDueAt: read(async ({ db }): Promise<number | null> => {
    const row = await db
      .selectFrom("deliveries")
      .select("nextAt")
      .where("state", "=", (eb) => eb.lit(PENDING))
      .where("nextAt", "is not", null)
      .where("owner", "is", null)
      .orderBy("nextAt")
      .limit(1)
      .executeTakeFirst();
    return row?.nextAt ?? null;
  }),

  /** The ids of those an owner holds. It changes nothing, but comes after every write before it. */
  held: write(async ({ db }, { owner }: { readonly owner: string }): Promise<string[]> => {
    const rows = await db
      .selectFrom("deliveries")
      .select("id")
      .where("state", "=", (eb) => eb.lit(PENDING))
      .where("owner", "=", owner)
      .execute();
    return rows.map(({ id }) => uuidText(id));
  }),

  /** Lets go of a delivery until that time, without an attempt. */
  postpone: write(
    async (
      { db },
      { id, owner, nextAt }: { readonly id: string; readonly owner: string; readonly nextAt: number },
    ): Promise<void> => {
      await db
        .updateTable("deliveries")
        .set({ owner: null, nextAt })
        .where("id", "=", uuidBytes(id))
        .where("owner", "=", owner)
        .where("state", "=", PENDING)
        .execute();
    },
  ),

  /** Puts an attempt on record and lets go of the delivery; false when the owner holds it no more. */
  recordAttempt: write(async ({ db }, input: Attempted): Promise<boolean> => {
    const { attempt, state, now } = input;
    const id = uuidBytes(input.id);
    const change = { state: deliveryStateCode(state), attempts: attempt.number, nextAt: attempt.nextAt };
    const ended = { sealedSecret: null, nextAt: null };
    const delivery = await db
      .updateTable("deliveries")
      .set({ ...change, updatedAt: now, owner: null, ...(state === "pending" ? {} : ended) })
      .where("id", "=", id)
      .where("owner", "=", input.owner)
      .where("state", "=", PENDING)
      .returning("appNumber")
      .executeTakeFirst();
    if (!delivery) return false;
    const { requestHeaders, ...rest } = attempt;
    await db
      .insertInto("deliveryAttempts")
      .values({ deliveryId: id, ...rest, requestHeaders: JSON.stringify(requestHeaders) })
      .execute();
    if (state !== "pending") {
      await db
        .updateTable("runs")
        .set({ webhookState: webhookStateCode(state), updatedAt: now })
        .where("appNumber", "=", delivery.appNumber)
        .where("id", "=", id)
        .execute();
    }
    return true;
  }),

  find: read(
    async (
      { db },
      { projectId, id }: { readonly projectId: string; readonly id: string },
    ): Promise<Delivery | null> => {
      const row = await db
        .selectFrom("deliveries")
        .innerJoin("apps", "apps.number", "deliveries.appNumber")
        .select(DELIVERY_COLUMNS.map((name) => `deliveries.${name}` as const))
        .where("deliveries.id", "=", uuidBytes(id))
        .where("apps.projectId", "=", projectId)
        .executeTakeFirst();
      return row ? deliveryFromRow(row) : null;
    },
  ),

  /** What was tried, in order. */
  attempts: read(async ({ db }, id: string): Promise<DeliveryAttempt[]> => {
    const rows = await db
      .selectFrom("deliveryAttempts")
      .select(["number", "startedAt", "durationMs", "requestHeaders", "status", "error", "nextAt"])
      .where("deliveryId", "=", uuidBytes(id))
      .orderBy("number")
      .execute();
    return rows.map(({ requestHeaders, ...rest }) => ({
      ...rest,
      requestHeaders: JSON.parse(requestHeaders) as Record<string, string>,
    }));
  }),

  /** A project's deliveries, newest first, without their bodies and secrets. */
  list: read(async ({ db }, filter: DeliveryFilter): Promise<Delivery[]> => {
    const columns = DELIVERY_COLUMNS.filter((name) => name !== "body" && name !== "sealedSecret");
    let query = db
      .selectFrom("deliveries")
      .select(columns)
      .where("appNumber", "in", (eb) =>
        eb.selectFrom("apps").select("number").where("projectId", "=", filter.projectId),
      );
    if (filter.state) query = query.where("state", "=", deliveryStateCode(filter.state));
    if (filter.before) query = query.where("id", "<", uuidBytes(filter.before));
    const rows = await query.orderBy("id", "desc").limit(filter.limit).execute();
    return rows.map((row) => deliveryFromRow({ ...row, body: null, sealedSecret: null }));
  }),

  /** Makes deliveries that have ended and still have a body due again; returns how many. */
  redeliver: write(redeliver),

  /** How many that would be, of a span of time. */
  countRedeliverable: read(countRedeliverable),
};

/** The ids of the first ones whose bodies fit; one is given whatever its size. */
function fitting(
  due: readonly { readonly id: Uint8Array; readonly bodyBytes: number | null }[],
  maxBytes: number,
): Uint8Array[] {
  let bytes = 0;
  const end = due.findIndex(({ bodyBytes }, i) => (bytes += bodyBytes ?? 0) > maxBytes && i > 0);
  return due.slice(0, end === -1 ? due.length : end).map(({ id }) => id);
}
