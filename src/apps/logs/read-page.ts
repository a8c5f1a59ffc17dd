import type { Clock } from "../../kit/clock.ts";
import type { LogLine } from "../../model/log-line.ts";
import { isSearch } from "../../store/apps/logs.ts";
import type { LogScan } from "../../store/apps/logs.ts";
import type { Store } from "../../store/store.ts";

/** Which lines of an app are wanted, in which direction, how many. */
export type LogQuery = Omit<LogScan, "limit" | "scanLimit"> & { readonly pageSize: number };

/** Lines in the query's direction; the next page goes on at `reached`, which is null when there is none. */
export type LogQueryPage = { readonly lines: readonly LogLine[]; readonly reached: string | null };

/** How many lines one step looks at; each step is a turn of the database's reading thread. */
const SCAN = 2_000;
/** A page that is still not full after this long is given as it is. */
const BUDGET_MS = 100;

/** Reads a page in small steps; a rare find costs several pages, not one that takes for ever. */
export async function readPage(store: Store, query: LogQuery, clock: Clock): Promise<LogQueryPage> {
  const { pageSize, ...scan } = query;
  const isChosen = isSearch(scan);
  const deadline = clock.monotonic() + BUDGET_MS;
  const lines: LogLine[] = [];
  let position: string | null = null;
  do {
    // One more than asked for shows whether there is more.
    const limit = pageSize + 1 - lines.length;
    const from = position === null ? {} : { [scan.direction === "forward" ? "after" : "before"]: position };
    const found = await store.logs.scan({
      ...scan,
      ...from,
      limit,
      scanLimit: isChosen ? Math.max(SCAN, limit) : limit,
    });
    lines.push(...found.lines);
    position = found.reached;
  } while (position !== null && lines.length <= pageSize && clock.monotonic() < deadline);
  if (lines.length <= pageSize) return { lines, reached: position };
  const page = lines.slice(0, pageSize);
  return { lines: page, reached: page.at(-1)!.id };
}
