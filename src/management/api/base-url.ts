import type { FastifyRequest } from "fastify";

/** The address of the management API as whoever asks reaches it: the public one, or by the request's Host. */
export function baseUrlOf(request: FastifyRequest, publicBaseUrl: string | null): string {
  return publicBaseUrl?.replace(/\/+$/, "") ?? `${request.protocol}://${request.host}`;
}
