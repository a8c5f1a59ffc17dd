import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { requireRole } from "../identity/principal.ts";
import type { Authenticate } from "./api/mount.ts";

export type OperatorParts = {
  readonly host: string;
  readonly publicApiUrl: string | null;
  readonly publicBaseUrl: string | null;
  /** The default project: its accounts and members are the operator's. */
  readonly projectId: string;
  readonly authenticate: Authenticate;
};

/**
 * Lets a request see what is the operator's affair: anybody's while only this machine reaches the listener, and
 * asks for it by a name of its own, else one with a token of the default project. Behind a proxy every request comes from this machine, so a public
 * address counts as reachable.
 */
export function operatorOnly(parts: OperatorParts): (request: FastifyRequest) => Promise<void> {
  const { host, publicApiUrl, publicBaseUrl, projectId, authenticate } = parts;
  const isOpen = isLoopback(host) && publicApiUrl === null && publicBaseUrl === null;
  return async ({ headers, host: asked }) => {
    if (isOpen && isLoopback(nameIn(asked))) return;
    requireRole(await authenticate(headers.authorization ?? null), projectId, "run");
  };
}

/** Without the port: a page of another site may have had its own name lead to this machine. */
function nameIn(host: string): string {
  return new URL(`http://${host}`).hostname.replace(/^\[(.*)\]$/, "$1");
}

/** Whether only this machine reaches that address. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}
