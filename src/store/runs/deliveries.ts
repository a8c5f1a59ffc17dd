import { read, type Row, type Schema, type Session, write } from "../operation.ts";
import { uuidBytes, uuidText } from "../../kit/ids.ts";
import type { Delivery, DeliveryAttempt, NewDelivery } from "../../model/delivery.ts";
import { DELIVERY_STATES, type DeliveryState } from "../../model/delivery.ts";
import { type ColumnBatch, type ColumnSources, packColumns } from "../column-batch.ts";
import type { RunTrace } from "../../model/trace.ts";
import { blobOf } from "./payloads.ts";
import { all, appsOf, chunks } from "../queries.ts";
import { webhookStateCode } from "./run-columns.ts";
import type { ExpressionBuilder } from "kysely";
import { isAlive } from "../nodes/nodes.ts";

type DeliveryRow = Omit<Row<"deliveries">, "owner">;

/** A state is stored as its index in the model's list, which may only grow at its end. */
function deliveryStateCode(state: DeliveryState): number {
  return DELIVERY_STATES.indexOf(state);
}

/** The code of a delivery that has not ended. */
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
    trace: (delivery) => delivery.trace && JSON.stringify(delivery.trace),
  },
  uuids: { id: (delivery) => delivery.id },
  blobs: { sealedSecret: (delivery) => delivery.sealedSecret, body: (delivery) => delivery.body },
} as const satisfies ColumnSources<NewDelivery>;

/** In the body column if the body is in a blob: marks that there is one. */
const IN_BLOB = new Uint8Array();

/** For batches with a large body. */
const WITH_BLOBS = {
  numbers: { ...SOURCES.numbers, bodyBytes: ({ bodyBlob }) => bodyBlob?.bytes ?? null },
  texts: { ...SOURCES.texts, bodyBlob: ({ bodyBlob }) => bodyBlob?.hash ?? null },
  uuids: SOURCES.uuids,
  blobs: { ...SOURCES.blobs, body: ({ body, bodyBlob }) => (bodyBlob ? IN_BLOB : body) },
} as const satisfies ColumnSources<NewDelivery>;

// Compiles only if every column has a source.
const ALL = {
  ...WITH_BLOBS.numbers,
  ...WITH_BLOBS.texts,
  ...WITH_BLOBS.uuids,
  ...WITH_BLOBS.blobs,
} satisfies Record<keyof DeliveryRow, unknown>;

const DELIVERY_COLUMNS = Object.keys(ALL) as (keyof DeliveryRow)[];

export function packDeliveries(deliveries: readonly NewDelivery[]): ColumnBatch {
  return packColumns(deliveries, deliveries.some(({ bodyBlob }) => bodyBlob) ? WITH_BLOBS : SOURCES);
}

function deliveryFromRow(row: DeliveryRow): Delivery {
  const state = DELIVERY_STATES[row.state];
  if (state === undefined) throw new RangeError(`a stored delivery has the unknown state ${row.state}`);
  const trace = row.trace === null ? null : (JSON.parse(row.trace) as RunTrace);
  const { bodyBlob, bodyBytes, ...delivery } = { ...row, id: uuidText(row.id), state, trace };
  return bodyBlob ? { ...delivery, body: null, bodyBlob: blobOf(bodyBlob, bodyBytes) } : delivery;
}

/** A delivery that its claimer is to attempt now. */
type DueDelivery = Delivery & { readonly projectId: string };
type DeliveryKey = Pick<DueDelivery, "projectId" | "id">;

type DueQuery = Readonly<{ owner: string; now: number; limit: number; maxBytes?: number }>;

type Postponement = { readonly id: string; readonly owner: string; readonly nextAt: number };

/** An attempt, and the new state of its delivery. */
type Attempted = Pick<Postponement, "id" | "owner"> &
  Readonly<{ attempt: DeliveryAttempt; state: DeliveryState; now: number }>;

type DeliveryFilter = {
  readonly projectId: string;
  readonly limit: number;
  readonly state?: DeliveryState;
  /** Only those of runs older than this one: the last id of the page before. */
  readonly before?: string;
};

type RedeliveryFilter = {
  readonly projectId: string;
  /** Only of these runs. */
  readonly ids?: readonly string[];
  /** Made at `from` or later, and before `to`. */
  readonly from?: number;
  readonly to?: number;
};

/** Responses to be sent to webhooks. A pending one may have an owner, which is making an attempt. */
export const deliveries = {
  /** Claims for the owner the deliveries that have been due longest and that no living owner holds. */
  claimDue: write(async (session, query: DueQuery): Promise<DueDelivery[]> => {
    const { sql, db } = session;
    const { owner } = query;
    const isHeld = isAlive(session, sql.ref("deliveries.owner"));
    const isFree = sql<boolean>`(owner is null or (owner <> ${owner} and not ${isHeld}))`;
    const { rows: due } = await sql<{ id: Uint8Array; size: number | null }>`
      select id, coalesce(body_bytes, length(body)) as size from deliveries
      where state = ${sql.lit(PENDING)} and next_at <= ${query.now} and ${isFree}
      order by next_at limit ${query.limit} ${session.skipLocked("deliveries")}
    `.execute(db);
    if (due.length === 0) return [];
    const taken = await db
      .updateTable("deliveries")
      .set({ owner })
      .where("id", "in", fitting(due, query.maxBytes ?? Number.POSITIVE_INFINITY))
      // Checked again now that the rows are locked: another owner may have claimed one since the snapshot of the select.
      .where(isFree)
      .returning("id")
      .execute();
    const ids = taken.map(({ id }) => id);
    if (ids.length === 0) return [];
    const rows = await withProjects(session)
      .select("apps.projectId")
      .where("deliveries.id", "in", ids)
      .orderBy("nextAt")
      .execute();
    return rows.map(({ projectId, ...row }) => ({ ...deliveryFromRow(row), projectId }));
  }),

  /** When the next delivery without an owner is due; null if there is none. */
  nextDueAt: read(async ({ sql, db }): Promise<number | null> => {
    const { rows } = await sql<{ nextAt: number }>`
      select next_at from deliveries
      where state = ${sql.lit(PENDING)} and next_at is not null and owner is null order by next_at limit 1
    `.execute(db);
    return rows[0]?.nextAt ?? null;
  }),

  /** The ids of those an owner holds. Changes nothing, but is a write, so that it comes after all earlier writes. */
  held: write(async ({ sql, db }, { owner }: { readonly owner: string }): Promise<string[]> => {
    const { rows } = await sql<{ id: Uint8Array }>`
      select id from deliveries where state = ${sql.lit(PENDING)} and owner = ${owner}
    `.execute(db);
    return rows.map(({ id }) => uuidText(id));
  }),

  /** Releases a delivery until that time, without an attempt. */
  postpone: write(async ({ db }, { id, owner, nextAt }: Postponement): Promise<void> => {
    await db
      .updateTable("deliveries")
      .set({ owner: null, nextAt })
      .where(all({ id: uuidBytes(id), owner, state: PENDING }))
      .execute();
  }),

  /** Records an attempt and releases the delivery; false if the owner no longer holds it. */
  recordAttempt: write(async (session, input: Attempted): Promise<boolean> => {
    const { db } = session;
    const { attempt, state, now } = input;
    const id = uuidBytes(input.id);
    const change = { state: deliveryStateCode(state), attempts: attempt.number, nextAt: attempt.nextAt };
    const ended = { sealedSecret: null, nextAt: null };
    const delivery = await db
      .updateTable("deliveries")
      .set({ ...change, updatedAt: now, owner: null, ...(state !== "pending" && ended) })
      .where(all({ id, owner: input.owner, state: PENDING }))
      .returning("appNumber")
      .executeTakeFirst();
    if (!delivery) return false;
    const row = { ...attempt, deliveryId: id, requestHeaders: JSON.stringify(attempt.requestHeaders) };
    await db.insertInto("deliveryAttempts").values(row).execute();
    if (state !== "pending") await noteInRuns(session, delivery.appNumber, [id], { state, now });
    return true;
  }),

  find: read(async (session, { projectId, id }: DeliveryKey): Promise<Delivery | null> => {
    const query = withProjects(session).where("deliveries.id", "=", uuidBytes(id));
    const row = await query.where("apps.projectId", "=", projectId).executeTakeFirst();
    return row ? deliveryFromRow(row) : null;
  }),

  /** The attempts of a delivery, in order. */
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
  list: read(async (session, filter: DeliveryFilter): Promise<Delivery[]> => {
    let query = session.db
      .selectFrom("deliveries")
      .select(DELIVERY_COLUMNS.filter((name) => name !== "body" && name !== "sealedSecret"))
      .where("appNumber", "in", appsOf(session, filter.projectId));
    if (filter.state) query = query.where("state", "=", deliveryStateCode(filter.state));
    if (filter.before) query = query.where("id", "<", uuidBytes(filter.before));
    const rows = await query.orderBy("id", "desc").limit(filter.limit).execute();
    return rows.map((row) => deliveryFromRow({ ...row, body: null, sealedSecret: null }));
  }),

  /** Makes deliveries that have ended and still have a body due again; returns how many. */
  redeliver: write(async (session, input: RedeliveryFilter & { readonly now: number }): Promise<number> => {
    const { db } = session;
    const { ids, now } = input;
    let count = 0;
    for (const some of ids ? chunks(ids.map(uuidBytes)) : [null]) {
      const update = db
        .updateTable("deliveries")
        .set({ state: PENDING, nextAt: now, updatedAt: now, owner: null })
        .where(isRedeliverable(session, input))
        .$if(some !== null, (query) => query.where("id", "in", some));
      const rows = await update.returning(["appNumber", "id"]).execute();
      count += rows.length;
      for (const [appNumber, group] of Map.groupBy(rows, (row) => row.appNumber))
        for (const runIds of chunks(group.map(({ id }) => id)))
          await noteInRuns(session, appNumber, runIds, { state: "pending", now });
    }
    return count;
  }),

  /** How many deliveries `redeliver` would make due again. */
  countRedeliverable: read(async (session, filter: RedeliveryFilter): Promise<number> => {
    const counted = session.db.selectFrom("deliveries").select((eb) => eb.fn.countAll<number>().as("count"));
    return (await counted.where(isRedeliverable(session, filter)).executeTakeFirstOrThrow()).count;
  }),
};

/** Records the new state of deliveries in their runs, which are all of one app. */
async function noteInRuns(
  { db }: Session,
  appNumber: number,
  ids: readonly Uint8Array[],
  { state, now }: Pick<Attempted, "state" | "now">,
): Promise<void> {
  await db
    .updateTable("runs")
    .set({ webhookState: webhookStateCode(state), updatedAt: now })
    .where("appNumber", "=", appNumber)
    .where("id", "in", ids)
    .execute();
}

function withProjects({ db }: Session) {
  return db
    .selectFrom("deliveries")
    .innerJoin("apps", "apps.number", "deliveries.appNumber")
    .select(DELIVERY_COLUMNS.map((name) => `deliveries.${name}` as const));
}

function isRedeliverable(session: Session, { projectId, from, to }: RedeliveryFilter) {
  return (eb: ExpressionBuilder<Schema, "deliveries">) =>
    eb.and([
      eb("state", "<>", eb.lit(PENDING)),
      eb("body", "is not", null),
      eb("appNumber", "in", appsOf(session, projectId)),
      ...(from === undefined ? [] : [eb("createdAt", ">=", from)]),
      ...(to === undefined ? [] : [eb("createdAt", "<", to)]),
    ]);
}

/** The ids of the first deliveries whose bodies fit; the first is included whatever its size. */
function fitting(
  due: readonly { readonly id: Uint8Array; readonly size: number | null }[],
  maxBytes: number,
): Uint8Array[] {
  let bytes = 0;
  const end = due.findIndex(({ size }, i) => (bytes += size ?? 0) > maxBytes && i > 0);
  return due.slice(0, end === -1 ? due.length : end).map(({ id }) => id);
}
