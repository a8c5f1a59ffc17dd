import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import type { Settings } from "../../config/setting-keys.ts";
import { requireRole } from "../../identity/principal.ts";
import type { Log } from "../../kit/log.ts";
import type { ManagementParts } from "../parts.ts";
import type { Authenticate } from "./mount.ts";

/** The listener speaks plain HTTP; TLS ends at a proxy. */
const PROTOCOL = "http:";

/** The URL at which the client reaches the management API: the public one, or that of the Host header. */
export function baseUrlOf(request: FastifyRequest, publicBaseUrl: string | null): string {
  return publicBaseUrl?.replace(/\/+$/, "") ?? `${PROTOCOL}//${request.host}`;
}

/** The URL at which the client reaches the apps: the public one, or the gateway's port on the same host. */
export function apiUrlOf(request: FastifyRequest, publicApiUrl: string | null, apiPort: number): string {
  if (publicApiUrl !== null) return publicApiUrl.replace(/\/+$/, "");
  const url = new URL(`${PROTOCOL}//${request.host}`);
  url.port = String(apiPort);
  return url.origin;
}

/** The URL of a listener for clients on this machine. */
export function listenerUrl(host: string, port: number): string {
  if (host === "0.0.0.0") return `http://127.0.0.1:${port}`;
  return host.includes(":") ? `http://[${host === "::" ? "::1" : host}]:${port}` : `http://${host}:${port}`;
}

/** Logs warnings about settings that expose the service, or that others cannot use. */
export function warnOfExposure(settings: Settings, baseUrl: string, log: Log): void {
  const { host, publicApiUrl, publicBaseUrl, smtpUrl } = settings;
  if (smtpUrl !== null && publicBaseUrl === null) {
    log.warn({ baseUrl }, "links in mails point to this address; set MILLRACE_PUBLIC_BASE_URL to change it");
  }
  if (isLoopback(host) || publicApiUrl?.startsWith("https://")) return;
  log.warn(
    { host },
    "REACHABLE FROM OTHER MACHINES WITHOUT TLS: tokens travel unencrypted; put a TLS proxy in front",
  );
}

type OperatorParts = Pick<ManagementParts, "publicApiUrl" | "publicBaseUrl" | "projectId"> & {
  readonly host: string;
  readonly authenticate: Authenticate;
};

/**
 * Returns a check that throws unless the request may see what is only for the operator. Any request may if only this
 * machine can reach the listener and the Host header names it; others need a token of the default project. Behind a proxy
 * all requests come from this machine, so a public URL means that others can reach it.
 */
export function operatorOnly(parts: OperatorParts): (request: FastifyRequest) => Promise<void> {
  const { host, publicApiUrl, publicBaseUrl, projectId, authenticate } = parts;
  const isOpen = isLoopback(host) && publicApiUrl === null && publicBaseUrl === null;
  return async ({ headers, host: asked }) => {
    if (isOpen && isLoopback(nameIn(asked))) return;
    requireRole(await authenticate(headers.authorization ?? null), projectId, "run");
  };
}

/** Without the port. A page of another site can point its own name at this machine (DNS rebinding). */
function nameIn(host: string): string {
  return new URL(`http://${host}`).hostname.replace(/^\[(.*)\]$/, "$1");
}

/** Whether only this machine reaches that address. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
