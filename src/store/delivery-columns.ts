import { uuidText } from "../kit/ids.ts";
import { DELIVERY_STATES } from "../model/delivery.ts";
import type { Delivery, DeliveryState, NewDelivery } from "../model/delivery.ts";
import { packColumns } from "./column-batch.ts";
import type { ColumnBatch, ColumnSources } from "./column-batch.ts";
import { blobOf } from "./run-blobs.ts";
import type { DeliveriesTable } from "./schema.ts";

/** A delivery's row without the columns that only the store uses. */
export type DeliveryRow = Omit<DeliveriesTable, "owner">;

/** The number a state is stored as: its place in the model's list, which may grow at its end. */
export function deliveryStateCode(state: DeliveryState): number {
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
export const DELIVERY_COLUMNS = Object.keys(ALL) as (keyof DeliveryRow)[];

/** New deliveries as columns, ready to travel to the database's thread. */
export function packDeliveries(deliveries: readonly NewDelivery[]): ColumnBatch {
  return packColumns(deliveries, deliveries.some(({ bodyBlob }) => bodyBlob) ? WITH_BLOBS : SOURCES);
}

/** The delivery that a row holds. */
export function deliveryFromRow(row: DeliveryRow): Delivery {
  const state = DELIVERY_STATES[row.state];
  if (state === undefined) throw new RangeError(`a stored delivery has the unknown state ${row.state}`);
  const { bodyBlob, bodyBytes, ...delivery } = { ...row, id: uuidText(row.id), state };
  return bodyBlob ? { ...delivery, body: null, bodyBlob: blobOf(bodyBlob, bodyBytes) } : delivery;
}
