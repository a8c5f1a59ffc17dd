import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { Clock } from "../kit/clock.ts";
import { DELIVERY_STATES } from "../model/delivery.ts";
import { deliveryRecord } from "./deliveries-record.ts";
import { AppError } from "../model/errors.ts";
import { RUN_ID } from "../model/names.ts";
import { addWebhookSecretRoutes } from "./webhook-secrets.ts";
import type { SecretParts } from "./webhook-secrets.ts";

export type WebhookParts = SecretParts & {
  /** The clock that deliveries are written with. */
  readonly clock: Clock;
  /** Says that something is due. */
  readonly wake: () => void;
};

type ProjectPath = { readonly Params: { readonly project_id: string } };
type DeliveryPath = { readonly Params: { readonly project_id: string; readonly id: string } };

const PATH = "/v2/projects/:project_id/deliveries";

const LIST = z.object({
  state: z.enum(DELIVERY_STATES).optional(),
  pageSize: z.coerce.number().int().min(1).max(100).default(50),
  nextToken: z
    .string()
    .refine((token) => token === "" || RUN_ID.test(idOf(token)), "is not a token of this list")
    .transform(idOf)
    .optional(),
});

const TIME = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
const RANGE = z.object({ from: TIME, to: TIME });

/** Everything about webhooks on the management API. */
export function addWebhookRoutes(app: FastifyInstance, parts: WebhookParts): void {
  addWebhookSecretRoutes(app, parts);
  addDeliveryRoutes(app, parts);
}

/** A project's deliveries and their attempts; sending one or many again. */
function addDeliveryRoutes(app: FastifyInstance, { store, clock, authorize, wake }: WebhookParts): void {
  const appNames = async (projectId: string): Promise<Map<number, string>> =>
    new Map((await store.apps.list(projectId)).map(({ number, name }) => [number, name]));

  const find = async (projectId: string, id: string) => {
    const delivery = RUN_ID.test(id) ? await store.deliveries.find({ projectId, id }) : null;
    if (!delivery) throw new AppError("not_found", { message: "The project has no such delivery." });
    return delivery;
  };

  app.get<ProjectPath>(PATH, async (request) => {
    const { project_id: projectId } = request.params;
    await authorize(request, projectId, "run");
    const { state, pageSize, nextToken } = read(LIST, request.query);
    const found = await store.deliveries.list({
      projectId,
      limit: pageSize + 1,
      ...(state && { state }),
      ...(nextToken && { before: nextToken }),
    });
    const page = found.slice(0, pageSize);
    const names = await appNames(projectId);
    const last = found.length > pageSize ? page.at(-1)?.id : undefined;
    return {
      items: page.map((delivery) => deliveryRecord(delivery, projectId, names)),
      nextToken: last === undefined ? "" : Buffer.from(last).toString("base64url"),
    };
  });

  app.get<DeliveryPath>(`${PATH}/:id`, async (request) => {
    const { project_id: projectId, id } = request.params;
    await authorize(request, projectId, "run");
    const delivery = await find(projectId, id);
    const [names, attempts] = [await appNames(projectId), await store.deliveries.attempts(id)];
    return { item: deliveryRecord(delivery, projectId, names, attempts) };
  });

  app.post<DeliveryPath>(`${PATH}/:id/redeliver`, async (request) => {
    const { project_id: projectId, id } = request.params;
    await authorize(request, projectId, "run");
    const delivery = await find(projectId, id);
    const redelivered = await store.deliveries.redeliver({ projectId, ids: [id], now: clock.now() });
    if (redelivered === 0 && delivery.body === null) {
      throw new AppError("not_found", { message: "The delivery's body is no longer kept." });
    }
    wake();
    return { redelivered };
  });

  app.post<ProjectPath>(`${PATH}/redeliver`, async (request) => {
    const { project_id: projectId } = request.params;
    await authorize(request, projectId, "run");
    const { from, to } = read(RANGE, request.body);
    const redelivered = await store.deliveries.redeliver({ projectId, from, to, now: clock.now() });
    wake();
    return { redelivered };
  });
}

/** The last delivery of the page before, as a token names it. */
function idOf(token: string): string {
  return Buffer.from(token, "base64url").toString();
}

/** The input in the schema's form; throws `bad_request` with every fault. */
function read<Schema extends z.ZodType>(schema: Schema, input: unknown): z.infer<Schema> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const details = result.error.issues.map(({ path, message }) => ({ at: path.join("."), message }));
  const faults = details.map(({ at, message }) => `${at || "body"}: ${message}`).join("; ");
  throw new AppError("bad_request", { message: faults, details });
}
