import { AppError } from "../model/errors.ts";
import { parseTimestamp } from "../model/log-line.ts";
import { RUN_ID } from "../model/names.ts";
import { positionAfter } from "./logs.ts";

/** The position in a log that a socket's `after` names by a line's id or a time; null when it is not given. */
export function readAfter(query: URLSearchParams): string | null {
  const after = query.get("after") ?? "";
  if (after === "") return null;
  if (RUN_ID.test(after)) return after;
  if (parseTimestamp(after) === null) throw badQuery("after", "is not an RFC 3339 time");
  return positionAfter(after);
}

/** What is wrong with a member of a socket's query. */
export function badQuery(field: string, problem: string): AppError {
  return new AppError("bad_request", { message: `${field}: ${problem}`, details: [{ field, problem }] });
}
