import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { ask } from "./http.ts";

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A run's response on its way to a webhook; it has the run's id. */
export type Delivery = {
  readonly id: string;
  /** The app's id; null once the app is deleted. */
  readonly modelId: string | null;
  readonly url: string;
  readonly contentType: string | null;
  readonly runStatusCode: number;
  readonly state: DeliveryState;
  readonly attemptCount: number;
  readonly nextAt: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
};

/** One try at a delivery. */
export type Attempt = {
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly status: number | null;
  readonly error: string | null;
  readonly nextAt: string | null;
};
export type DeliveryDetail = Delivery & { readonly attempts: readonly Attempt[] };

/** A secret that deliveries are signed with; what it is was shown once. */
export type SigningSecret = { readonly id: string; readonly createdAt: string };
export type NewSigningSecret = SigningSecret & { readonly secret: string };

type DeliveryPage = { readonly items: readonly Delivery[]; readonly nextToken: string };

/** More pages than these are not asked for again by themselves. */
const MAX_LIVE_PAGES = 4;

const deliveriesOf = (projectId: string): string => `/v2/projects/${projectId}/deliveries`;
const secretsOf = (projectId: string): string => `/v2/projects/${projectId}/webhook-secrets`;

/** The filter that an address names. */
export function readDeliverySearch(search: Record<string, unknown>): { state?: DeliveryState } {
  const state = DELIVERY_STATES.find((name) => name === search["state"]);
  return state ? { state } : {};
}

/** A project's deliveries, newest first, page by page. */
export function deliveriesQuery(projectId: string, state: DeliveryState | undefined) {
  return infiniteQueryOptions({
    queryKey: ["deliveries", projectId, state ?? null],
    queryFn: ({ pageParam: nextToken, signal }) =>
      ask<DeliveryPage>(deliveriesOf(projectId), { query: { state, nextToken, pageSize: 50 }, signal }),
    initialPageParam: "",
    getNextPageParam: ({ nextToken }) => nextToken || null,
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > MAX_LIVE_PAGES ? false : 5_000),
  });
}

/** One delivery with its attempts; asked for often while it is on its way. */
export function deliveryQuery(projectId: string, id: string) {
  return queryOptions({
    queryKey: ["delivery", projectId, id],
    queryFn: async ({ signal }) =>
      (await ask<{ readonly item: DeliveryDetail }>(`${deliveriesOf(projectId)}/${id}`, { signal })).item,
    refetchInterval: ({ state: { data } }) => (data?.state === "pending" ? 2_000 : 15_000),
  });
}

/** Sends one again; says how many that are, which is none when it is on its way already. */
export async function redeliver(projectId: string, id: string): Promise<number> {
  const path = `${deliveriesOf(projectId)}/${id}/redeliver`;
  return (await ask<{ readonly redelivered: number }>(path, { method: "POST" })).redelivered;
}

export type Span = { readonly from: string; readonly to: string };

/** Sends again what was made in a span of time and has ended; or only says how many those are. */
export async function redeliverSpan(projectId: string, span: Span, countOnly: boolean): Promise<number> {
  const body = { ...span, countOnly };
  const path = `${deliveriesOf(projectId)}/redeliver`;
  return (await ask<{ readonly redelivered: number }>(path, { method: "POST", body })).redelivered;
}

export function signingSecretsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["webhook-secrets", projectId],
    queryFn: ({ signal }) => ask<readonly SigningSecret[]>(secretsOf(projectId), { signal }),
  });
}

export async function createSigningSecret(projectId: string): Promise<NewSigningSecret> {
  return await ask(secretsOf(projectId), { method: "POST" });
}

export async function retireSigningSecret(projectId: string, id: string): Promise<void> {
  await ask(`${secretsOf(projectId)}/${id}`, { method: "DELETE" });
}
