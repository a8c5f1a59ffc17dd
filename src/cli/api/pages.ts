import type { Shape } from "../../shapes/shape.ts";
import type { Api, Asking } from "./api.ts";
import { usage } from "../failure.ts";

/** The first entries of a list that comes in pages, as many as were asked for. */
export async function firstOf<Entry>(
  api: Api,
  pages: Shape<{ items: Entry[]; nextToken: string }>,
  path: string,
  limit: number,
  asking: Asking = {},
): Promise<Entry[]> {
  const found: Entry[] = [];
  let nextToken = "";
  do {
    const pageSize = Math.min(limit - found.length, 100);
    const query = { ...asking.query, pageSize, ...(nextToken !== "" && { nextToken }) };
    const page = await api.get(pages, path, { ...asking, query });
    found.push(...page.items);
    nextToken = page.nextToken;
  } while (nextToken !== "" && found.length < limit);
  return found;
}

/** Reads `--limit`. */
export function readLimit(text: string): number {
  const limit = /^\d{1,7}$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw usage(`--limit takes a number of at least 1, not ${JSON.stringify(text)}`);
  return limit;
}
