import { useQueryClient, useQuery } from "@tanstack/react-query";
import { useEffect, useReducer } from "react";
import type { ReactNode } from "react";
import { isOfServer, newestRunsQuery, readRuns } from "../../api/runs.ts";
import type { Run } from "../../api/runs.ts";
import type { RunSearch } from "../../api/run-search.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { count, exact } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Table } from "../../parts/table.tsx";
import { EMPTY_LIST, MAX_ROWS, nextList } from "./run-list.ts";
import { RunRow } from "./run-row.tsx";
import { PAGE_SIZE, useOlder } from "./use-older.ts";

/** Who has scrolled further reads. */
const TOP_PIXELS = 80;

const COLUMNS = [
  { title: "Run" },
  { title: "State" },
  { title: "App" },
  { title: "Function", isMinor: true },
  { title: "Status", align: "right", isMinor: true },
  { title: "In / out", align: "right", isMinor: true },
  { title: "Started", align: "right" },
  { title: "Duration", align: "right" },
  { title: "Queued for", align: "right", isMinor: true },
] as const;

/** Runs as they come, newest first, and older ones on demand. */
export function RunTable({
  projectId,
  search,
  isOfApp,
  empty,
}: {
  readonly projectId: string;
  readonly search: RunSearch;
  /** All of one app, which need not be said. */
  readonly isOfApp: boolean;
  /** What stands there when there are none. */
  readonly empty: ReactNode;
}) {
  const queries = useQueryClient();
  const newest = newestRunsQuery(projectId, search, PAGE_SIZE);
  const { data: page, error, refetch } = useQuery(newest);
  const [list, change] = useReducer(nextList<Run>, EMPTY_LIST);
  useEffect(() => {
    if (!page) return;
    const isFull = page.items.length >= PAGE_SIZE;
    change({ kind: "newest", page, isAtTop: window.scrollY < TOP_PIXELS, isFull });
  }, [page]);
  const { rows, olderToken } = list;
  const older = useOlder(list, async (nextToken) => {
    const page = await readRuns(projectId, search, { pageSize: PAGE_SIZE, nextToken });
    change({ kind: "older", page });
    return page.items.length < PAGE_SIZE ? (page.completeSince ?? null) : null;
  });
  const show = (): void => {
    change({ kind: "show" });
    window.scrollTo({ top: 0 });
    void queries.invalidateQueries({ queryKey: newest.queryKey });
  };
  const hasBytes = rows.some(isOfServer);
  const columns = COLUMNS.filter(
    ({ title }) => !(isOfApp && title === "App") && (hasBytes || title !== "In / out"),
  );
  if (error && !page) return <Problem error={error} onRetry={() => void refetch()} />;
  return (
    <>
      {list.waiting > 0 && (
        <Button
          look="primary"
          onClick={show}
          className="sticky top-3 z-10 self-center rounded-full shadow-lg max-md:top-16"
        >
          {waitingText(list.waiting, list.isMoreWaiting)}
        </Button>
      )}
      <Card isFlush>
        {olderToken === "" && rows.length === 0 ? (
          empty
        ) : olderToken !== null && rows.length === 0 ? (
          <Empty title={older.isSearching ? "Searching…" : "None so far"}>
            The newest runs have none that match; older ones may.
          </Empty>
        ) : (
          <Table columns={columns} label="Runs">
            {rows.map((run) => (
              <RunRow key={run.id} projectId={projectId} run={run} isOfApp={isOfApp} hasBytes={hasBytes} />
            ))}
            {olderToken === null && <SkeletonRows rows={12} columns={columns.length} />}
          </Table>
        )}
        {olderToken !== null && olderToken !== "" && (
          <footer className="flex flex-wrap items-center justify-center gap-3 border-t border-line p-3">
            {older.searchedTo !== null && rows.length < MAX_ROWS && (
              <p role="status" className="text-ink-soft">
                Searched back to {exact(Date.parse(older.searchedTo))}.
              </p>
            )}
            {rows.length >= MAX_ROWS ? (
              <p className="text-ink-soft">
                {count(rows.length)} runs are shown. Narrow the time to look further back.
              </p>
            ) : older.isSearching ? (
              <Button onClick={older.stop}>Stop</Button>
            ) : (
              <Button onClick={older.load}>
                {older.searchedTo === null ? "Load older" : "Search further back"}
              </Button>
            )}
          </footer>
        )}
      </Card>
    </>
  );
}

function waitingText(waiting: number, isMore: boolean): string {
  if (waiting === 1 && !isMore) return "1 new run";
  return `${count(waiting)}${isMore ? "+" : ""} new runs`;
}
