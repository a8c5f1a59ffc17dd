import type { FastifyRequest } from "fastify";

/** What the listener speaks; what another node passes on came to one like it. */
const PROTOCOL = "http:";

/** The address of the management API as whoever asks reaches it: the public one, or by the request's Host. */
export function baseUrlOf(request: FastifyRequest, publicBaseUrl: string | null): string {
  return publicBaseUrl?.replace(/\/+$/, "") ?? `${PROTOCOL}//${request.host}`;
}

/** The address of the app endpoints as whoever asks reaches it: the public one, or the gateway's port of the same host. */
export function apiUrlOf(request: FastifyRequest, publicApiUrl: string | null, apiPort: number): string {
  if (publicApiUrl !== null) return publicApiUrl.replace(/\/+$/, "");
  const url = new URL(`${PROTOCOL}//${request.host}`);
  url.port = String(apiPort);
  return url.origin;
}
