import type { Row, Schema } from "../schema/schema.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import { DELIVERY_STATES } from "../../model/delivery.ts";
import type { Delivery, DeliveryAttempt, DeliveryState, NewDelivery } from "../../model/delivery.ts";
import { packColumns } from "../column-batch.ts";
import type { ColumnBatch, ColumnSources } from "../column-batch.ts";
import { blobOf } from "./payloads.ts";
import { chunks } from "../queries.ts";
import type { Session } from "../operation.ts";
import { webhookStateCode } from "./run-columns.ts";
import type { ExpressionBuilder } from "kysely";
import { isAlive } from "../nodes/nodes.ts";
import { read, write } from "../operation.ts";

/** A delivery's row without the columns that only the store uses. */
type DeliveryRow = Omit<Row<"deliveries">, "owner">;

/** The number a state is stored as: its place in the model's list, which may grow at its end. */
function deliveryStateCode(state: DeliveryState): number {
  return DELIVERY_STATES.indexOf(state);
}

/** That of a delivery which has not ended. */
export const PENDING = deliveryStateCode("pending");

const SOURCES = {
  numbers: {
    appNumber: (delivery) => delivery.appNumber,
    runStatus: (delivery) => delivery.runStatus,
    state: () => PENDING,
    attempts: () => 0,
    nextAt: (delivery) => delivery.nextAt,
    createdAt: (delivery) => delivery.createdAt,
    updatedAt: (delivery) => delivery.createdAt,
  },
  texts: {
    url: (delivery) => delivery.url,
    contentType: (delivery) => delivery.contentType,
  },
  uuids: { id: (delivery) => delivery.id },
  blobs: {
    sealedSecret: (delivery) => delivery.sealedSecret,
    body: (delivery) => delivery.body,
  },
} as const satisfies ColumnSources<NewDelivery>;

/** In the column of a body that lies in a blob: there is one, but not there. */
const ELSEWHERE = new Uint8Array();

/** Of batches with large bodies: all others are written as if there were none. */
const WITH_BLOBS = {
  numbers: { ...SOURCES.numbers, bodyBytes: ({ bodyBlob }) => bodyBlob?.bytes ?? null },
  texts: { ...SOURCES.texts, bodyBlob: ({ bodyBlob }) => bodyBlob?.hash ?? null },
  uuids: SOURCES.uuids,
  blobs: { ...SOURCES.blobs, body: ({ body, bodyBlob }) => (bodyBlob ? ELSEWHERE : body) },
} as const satisfies ColumnSources<NewDelivery>;

// Compiles only while every column has a source.
const ALL = {
  ...WITH_BLOBS.numbers,
  ...WITH_BLOBS.texts,
  ...WITH_BLOBS.uuids,
  ...WITH_BLOBS.blobs,
} satisfies Record<keyof DeliveryRow, unknown>;

/** The columns that make a delivery. */
const DELIVERY_COLUMNS = Object.keys(ALL) as (keyof DeliveryRow)[];

/** New deliveries as columns, ready to travel to the database's thread. */
export function packDeliveries(deliveries: readonly NewDelivery[]): ColumnBatch {
  return packColumns(deliveries, deliveries.some(({ bodyBlob }) => bodyBlob) ? WITH_BLOBS : SOURCES);
}

/** The delivery that a row holds. */
function deliveryFromRow(row: DeliveryRow): Delivery {
  const state = DELIVERY_STATES[row.state];
  if (state === undefined) throw new RangeError(`a stored delivery has the unknown state ${row.state}`);
  const { bodyBlob, bodyBytes, ...delivery } = { ...row, id: uuidText(row.id), state };
  return bodyBlob ? { ...delivery, body: null, bodyBlob: blobOf(bodyBlob, bodyBytes) } : delivery;
}

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
async function redeliver({ db }: Session, input: Redelivery): Promise<number> {
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
async function countRedeliverable(
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

/** A delivery that its claimer is to attempt now. */
type DueDelivery = Delivery & { readonly projectId: string };

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
