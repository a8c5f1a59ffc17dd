import { requireRole } from "../identity/principal.ts";
import type { Principal } from "../identity/principal.ts";
import type { Tokens } from "../identity/tokens.ts";
import { AppError } from "../model/errors.ts";

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const CHALLENGE = { headers: { "www-authenticate": "Bearer" } };

/** Lets in who may call apps of the project; a promise only for a token seen for the first time. */
export function authenticate(
  tokens: Tokens,
  authorization: string | null,
  projectId: string,
): Principal | Promise<Principal> {
  const token = readToken(authorization);
  const known = tokens.recall(token);
  if (known) return allow(known, projectId);
  return verify(tokens, token, projectId);
}

async function verify(tokens: Tokens, token: string, projectId: string): Promise<Principal> {
  try {
    return allow(await tokens.verify(token), projectId);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "unauthorized") throw error;
    throw new AppError("unauthorized", { ...error.detail, ...CHALLENGE }, error);
  }
}

function allow(principal: Principal, projectId: string): Principal {
  requireRole(principal, projectId, "run");
  return principal;
}

function readToken(authorization: string | null): string {
  if (authorization === null) throw new AppError("unauthorized", CHALLENGE);
  // The usual spelling first: a regular expression per call would cost more than the look-up.
  if (authorization.startsWith("Bearer ey") && !authorization.includes(" ", 7)) return authorization.slice(7);
  const [, token] = BEARER.exec(authorization) ?? [];
  if (token === undefined) throw new AppError("unauthorized", CHALLENGE);
  return token;
}
