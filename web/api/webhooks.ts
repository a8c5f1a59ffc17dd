import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { DELIVERY_STATES } from "../../src/model/delivery.ts";
import type { DeliveryState } from "../../src/model/delivery.ts";
import {
  DELIVERIES,
  NEW_SIGNING_SECRET,
  ONE_DELIVERY,
  REDELIVERED,
  SIGNING_SECRETS,
} from "../../src/shapes/deliveries.ts";
import type { NewSigningSecret } from "../../src/shapes/deliveries.ts";
import { ask, tell } from "./http.ts";

export type {
  AttemptRecord as Attempt,
  DeliveryDetail,
  DeliveryRecord as Delivery,
  SigningSecretRecord as SigningSecret,
} from "../../src/shapes/deliveries.ts";

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
      ask(DELIVERIES, deliveriesOf(projectId), { query: { state, nextToken, pageSize: 50 }, signal }),
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
      (await ask(ONE_DELIVERY, `${deliveriesOf(projectId)}/${id}`, { signal })).item,
    refetchInterval: ({ state: { data } }) => (data?.state === "pending" ? 2_000 : 15_000),
  });
}

/** Sends one again; says how many that are, which is none when it is on its way already. */
export async function redeliver(projectId: string, id: string): Promise<number> {
  const path = `${deliveriesOf(projectId)}/${id}/redeliver`;
  return (await ask(REDELIVERED, path, { method: "POST" })).redelivered;
}

export type Span = { readonly from: string; readonly to: string };

/** Sends again what was made in a span of time and has ended; or only says how many those are. */
export async function redeliverSpan(projectId: string, span: Span, countOnly: boolean): Promise<number> {
  const body = { ...span, countOnly };
  const path = `${deliveriesOf(projectId)}/redeliver`;
  return (await ask(REDELIVERED, path, { method: "POST", body })).redelivered;
}

export function signingSecretsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["webhook-secrets", projectId],
    queryFn: ({ signal }) => ask(SIGNING_SECRETS, secretsOf(projectId), { signal }),
  });
}

export async function createSigningSecret(projectId: string): Promise<NewSigningSecret> {
  return await ask(NEW_SIGNING_SECRET, secretsOf(projectId), { method: "POST" });
}

export async function retireSigningSecret(projectId: string, id: string): Promise<void> {
  await tell(`${secretsOf(projectId)}/${id}`, { method: "DELETE" });
}
