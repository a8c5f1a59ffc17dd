import { RUN_ID } from "../../model/names.ts";
import { NEXT_TOKEN } from "./schemas.ts";

/** The token of a list that goes by id, as the id of the last entry of the page before; empty at the start. */
export const ID_TOKEN = NEXT_TOKEN.refine(
  (token) => token === "" || RUN_ID.test(idOf(token)),
  "does not belong to this list",
).transform(idOf);

/** A page of what was found, one entry more than it may hold, and the token of the next one. */
export function cutPage<Entry extends { readonly id: string }>(
  found: readonly Entry[],
  limit: number,
): { readonly page: readonly Entry[]; readonly nextToken: string } {
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  return { page, nextToken: tokenOf(last?.id ?? null) };
}

/** The token of a list that goes on after that id; empty at its end. */
export function tokenOf(id: string | null): string {
  return id === null ? "" : Buffer.from(id).toString("base64url");
}

function idOf(token: string): string {
  return Buffer.from(token, "base64url").toString();
}
