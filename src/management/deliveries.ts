import { z } from "zod";
import type { Audit } from "../identity/audit.ts";
import type { Clock } from "../kit/clock.ts";
import { DELIVERY_STATES } from "../model/delivery.ts";
import { AppError } from "../model/errors.ts";
import { RUN_ID } from "../model/names.ts";
import { DELIVERIES, ONE_DELIVERY, REDELIVERED } from "../shapes/deliveries.ts";
import type { Store } from "../store/store.ts";
import { operation } from "./api/operation.ts";
import type { AnyOperation } from "./api/operation.ts";
import { ID_TOKEN, cutPage } from "./api/pages.ts";
import { record } from "./api/record.ts";
import { PROJECT_PATH, pageSize } from "./api/schemas.ts";
import { attemptRecord, deliveryRecord } from "./deliveries-record.ts";

export type DeliveryParts = {
  readonly store: Store;
  readonly audit: Pick<Audit, "record">;
  /** The clock that deliveries are written with. */
  readonly steadyClock: Clock;
  /** Says that something is due. */
  readonly wake: () => void;
};

const TAG = "Webhooks";
const PATH = "/v2/projects/{project_id}/deliveries";
const DELIVERY_PATH = PROJECT_PATH.extend({ id: z.string().min(1).max(100) });

const LIST = z.object({
  state: z.enum(DELIVERY_STATES).optional(),
  pageSize: pageSize(50, 100),
  nextToken: ID_TOKEN.optional(),
});

const TIME = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
/** With `countOnly` nothing is sent: the answer says what would be. */
const RANGE = z.object({ from: TIME, to: TIME, countOnly: z.boolean().default(false) });

/** A project's deliveries and their attempts; sending one or many again. */
export function deliveryOperations({ store, audit, steadyClock, wake }: DeliveryParts): AnyOperation[] {
  const appNames = async (projectId: string): Promise<Map<number, string>> =>
    new Map((await store.apps.list(projectId)).map(({ number, name }) => [number, name]));

  const find = async ({ project_id: projectId, id }: z.infer<typeof DELIVERY_PATH>) => {
    const delivery = RUN_ID.test(id) ? await store.deliveries.find({ projectId, id }) : null;
    if (!delivery) throw new AppError("not_found", { message: "The project has no such delivery." });
    return delivery;
  };

  return [
    operation({
      method: "GET",
      path: PATH,
      id: "listDeliveries",
      tag: TAG,
      summary: "List a project's webhook deliveries, newest first",
      access: "run",
      params: PROJECT_PATH,
      query: LIST,
      response: DELIVERIES,
      handle: async ({ params, query }) => {
        const { project_id: projectId } = params;
        const { state, pageSize: limit, nextToken: before } = query;
        const found = await store.deliveries.list({
          projectId,
          limit: limit + 1,
          ...(state && { state }),
          ...(before && { before }),
        });
        const { page, nextToken } = cutPage(found, limit);
        const names = await appNames(projectId);
        return { items: page.map((delivery) => deliveryRecord(delivery, projectId, names)), nextToken };
      },
    }),
    operation({
      method: "GET",
      path: `${PATH}/{id}`,
      id: "getDelivery",
      tag: TAG,
      summary: "Get a delivery with its attempts",
      access: "run",
      params: DELIVERY_PATH,
      response: ONE_DELIVERY,
      errors: ["not_found"],
      handle: async ({ params }) => {
        const { project_id: projectId, id } = params;
        const delivery = await find(params);
        const attempts = await store.deliveries.attempts(id);
        const item = deliveryRecord(delivery, projectId, await appNames(projectId));
        return { item: { ...item, attempts: attempts.map(attemptRecord) } };
      },
    }),
    operation({
      method: "POST",
      path: `${PATH}/{id}/redeliver`,
      id: "redeliverOne",
      tag: TAG,
      summary: "Send a delivery again",
      access: "run",
      params: DELIVERY_PATH,
      response: REDELIVERED,
      errors: ["not_found"],
      handle: async (call) => {
        const { project_id: projectId, id } = call.params;
        const { body, bodyBlob, state } = await find(call.params);
        const redelivered = await store.deliveries.redeliver({
          projectId,
          ids: [id],
          now: steadyClock.now(),
        });
        if (redelivered === 0 && body === null && !bodyBlob) {
          throw new AppError("not_found", { message: "The delivery's body is no longer stored." });
        }
        const [before, after] = [{ state }, { redelivered }];
        await record(audit, call, { action: "delivery.redeliver", target: id, before, after });
        wake();
        return { redelivered };
      },
    }),
    operation({
      method: "POST",
      path: `${PATH}/redeliver`,
      id: "redeliverMany",
      tag: TAG,
      summary: "Send all deliveries of a time span again",
      access: "run",
      params: PROJECT_PATH,
      body: RANGE,
      response: REDELIVERED,
      handle: async (call) => {
        const { project_id: projectId } = call.params;
        const { from, to, countOnly } = call.body;
        if (countOnly)
          return { redelivered: await store.deliveries.countRedeliverable({ projectId, from, to }) };
        const redelivered = await store.deliveries.redeliver({ projectId, from, to, now: steadyClock.now() });
        const after = { from, to, redelivered };
        await record(audit, call, { action: "delivery.redeliver", target: projectId, before: null, after });
        wake();
        return { redelivered };
      },
    }),
  ];
}
