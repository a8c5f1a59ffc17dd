import { z } from "zod";
import { type Delivery, DELIVERY_STATES, type DeliveryAttempt } from "../../model/delivery.ts";
import { AppError } from "../../model/errors.ts";
import { appId, RUN_ID } from "../../model/names.ts";
import { ID, timestamp } from "../../shapes/common.ts";
import {
  DELIVERIES,
  NEW_SIGNING_SECRET,
  ONE_DELIVERY,
  REDELIVERED,
  SIGNING_SECRETS,
} from "../../shapes/deliveries.ts";
import type { AttemptRecord, DeliveryRecord } from "../../shapes/deliveries.ts";
import { ID_TOKEN, pageSize, TIME, tokenOf } from "../api/inputs.ts";
import { type Operation, type Params, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

/** Each delivery carries a signature by each secret. */
const MAX_ACTIVE = 10;
const operation = tagged("Webhooks");
const SECRETS_PATH = "/v2/projects/{project_id}/webhook-secrets";
const DELIVERIES_PATH = "/v2/projects/{project_id}/deliveries";
const DELIVERY_URL = `${DELIVERIES_PATH}/{id}` as const;

const LIST = z.object({
  state: z.enum(DELIVERY_STATES).optional(),
  pageSize: pageSize(50, 100),
  nextToken: ID_TOKEN.optional(),
});

/** With `countOnly` nothing is sent; the answer is the number of deliveries. */
const RANGE = z.object({ from: TIME, to: TIME, countOnly: z.boolean().default(false) });

/** The secrets that sign a project's webhooks; its deliveries, and sending one or many of them again. */
export function webhookOperations(parts: ManagementParts): Operation[] {
  const { store, signingSecrets, steadyClock, wake } = parts;
  const active = async (projectId: string) =>
    (await store.webhookSecrets.list(projectId)).filter(({ retiredAt }) => retiredAt === null);

  const appNames = async (projectId: string) =>
    new Map((await store.apps.list(projectId)).map(({ number, name }) => [number, name]));

  const find = async ({ project_id: projectId, id }: Params<typeof DELIVERY_URL>) => {
    const delivery = RUN_ID.test(id) ? await store.deliveries.find({ projectId, id }) : null;
    if (!delivery) throw new AppError("not_found", { message: "The project has no such delivery." });
    return delivery;
  };

  return [
    operation("GET", SECRETS_PATH, {
      id: "listWebhookSecrets",
      summary: "List the webhook secrets in use, without their values",
      access: "deploy",
      response: SIGNING_SECRETS,
      handle: async ({ projectId }) =>
        (await active(projectId)).map(({ id, createdAt }) => ({ id, createdAt: timestamp(createdAt) })),
    }),
    operation("POST", SECRETS_PATH, {
      id: "createWebhookSecret",
      summary: "Create a webhook secret; its value is shown only once",
      access: "admin",
      response: NEW_SIGNING_SECRET,
      handle: async (call) => {
        if ((await active(call.projectId)).length >= MAX_ACTIVE) {
          const message = `A project has at most ${MAX_ACTIVE} webhook secrets.`;
          throw new AppError("bad_request", { message });
        }
        const { id, createdAt, secret } = await signingSecrets.make(call.projectId);
        await call.record("webhook-secret.create", id, { after: { id } });
        call.reply.header("cache-control", "no-store");
        return { id, createdAt: timestamp(createdAt), secret };
      },
    }),
    operation("DELETE", `${SECRETS_PATH}/{id}`, {
      id: "deleteWebhookSecret",
      summary: "Remove a webhook secret",
      access: "admin",
      response: ID,
      errors: ["not_found"],
      handle: async (call) => {
        const { id } = call.params;
        if (!(await signingSecrets.retire(call.projectId, id))) throw new AppError("not_found");
        await call.record("webhook-secret.delete", id, { before: { id } });
        return { id };
      },
    }),
    operation("GET", DELIVERIES_PATH, {
      id: "listDeliveries",
      summary: "List a project's webhook deliveries, newest first",
      access: "run",
      query: LIST,
      response: DELIVERIES,
      handle: async ({ projectId, query }) => {
        const { state, pageSize: limit, nextToken: before } = query;
        const found = await store.deliveries.list({
          projectId,
          limit: limit + 1,
          ...(state && { state }),
          ...(before && { before }),
        });
        const names = await appNames(projectId);
        const items = found.slice(0, limit).map((delivery) => deliveryRecord(delivery, projectId, names));
        return { items, nextToken: tokenOf(found.length > limit ? (items.at(-1)?.id ?? null) : null) };
      },
    }),
    operation("GET", DELIVERY_URL, {
      id: "getDelivery",
      summary: "Get a delivery with its attempts",
      access: "run",
      response: ONE_DELIVERY,
      errors: ["not_found"],
      handle: async ({ params, projectId }) => {
        const delivery = await find(params);
        const attempts = await store.deliveries.attempts(params.id);
        const item = deliveryRecord(delivery, projectId, await appNames(projectId));
        return { item: { ...item, attempts: attempts.map(attemptRecord) } };
      },
    }),
    operation("POST", `${DELIVERY_URL}/redeliver`, {
      id: "redeliverOne",
      summary: "Send a delivery again",
      access: "run",
      response: REDELIVERED,
      errors: ["not_found"],
      handle: async (call) => {
        const { projectId } = call;
        const { id } = call.params;
        const { body, bodyBlob, state } = await find(call.params);
        const now = steadyClock.now();
        const redelivered = await store.deliveries.redeliver({ projectId, ids: [id], now });
        if (redelivered === 0 && body === null && !bodyBlob) {
          throw new AppError("not_found", { message: "The delivery's body is no longer stored." });
        }
        await call.record("delivery.redeliver", id, { before: { state }, after: { redelivered } });
        wake();
        return { redelivered };
      },
    }),
    operation("POST", `${DELIVERIES_PATH}/redeliver`, {
      id: "redeliverMany",
      summary: "Send all deliveries of a time span again",
      access: "run",
      body: RANGE,
      response: REDELIVERED,
      handle: async (call) => {
        const { projectId } = call;
        const { from, to, countOnly } = call.body;
        if (countOnly)
          return { redelivered: await store.deliveries.countRedeliverable({ projectId, from, to }) };
        const redelivered = await store.deliveries.redeliver({ projectId, from, to, now: steadyClock.now() });
        await call.record("delivery.redeliver", projectId, { after: { from, to, redelivered } });
        wake();
        return { redelivered };
      },
    }),
  ];
}

function deliveryRecord(
  delivery: Delivery,
  projectId: string,
  appNames: ReadonlyMap<number, string>,
): DeliveryRecord {
  const { id, appNumber, url, contentType, runStatus, state, nextAt, createdAt, updatedAt } = delivery;
  const name = appNames.get(appNumber);
  return {
    id,
    projectId,
    modelId: name === undefined ? null : appId(projectId, name),
    url,
    contentType,
    runStatusCode: runStatus,
    state,
    attemptCount: delivery.attempts,
    nextAt: nextAt === null ? null : timestamp(nextAt),
    createdAt: timestamp(createdAt),
    updatedAt: timestamp(updatedAt),
  };
}

function attemptRecord({ startedAt, nextAt, ...rest }: DeliveryAttempt): AttemptRecord {
  return {
    ...rest,
    startedAt: timestamp(startedAt),
    nextAt: nextAt === null ? null : timestamp(nextAt),
  };
}
