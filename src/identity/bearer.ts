import { AppError } from "../model/errors.ts";

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** What goes with every 401. */
export const CHALLENGE = { "www-authenticate": "Bearer" };

/** The token in an Authorization header; throws `unauthorized` where there is none. */
export function bearerToken(authorization: string | null): string {
  const token = BEARER.exec(authorization ?? "")?.[1];
  if (token === undefined) throw new AppError("unauthorized", { headers: CHALLENGE });
  return token;
}
