import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useRef } from "react";
import { readLogSearch } from "../../api/logs.ts";
import type { LogFilter } from "../../api/logs.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Empty } from "../../parts/empty.tsx";
import { count } from "../../parts/format.ts";
import { Picker } from "../../parts/picker.tsx";
import { Problem } from "../../parts/problem.tsx";
import { saveText } from "../../parts/save-text.ts";
import { Skeleton } from "../../parts/skeleton.tsx";
import { LogFilters } from "./logs/log-filters.tsx";
import { LogLines } from "./logs/log-lines.tsx";
import { MAX_LINES } from "./logs/log-view.ts";
import type { LogState } from "./logs/log-view.ts";
import { plainLine } from "../../parts/plain-line.ts";
import { useLogView } from "./logs/use-log-view.ts";

/** What the app prints: followed as it comes, searched, narrowed to a run. */
export function AppLogs() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName/logs" });
  const search = useSearch({ from: "/gate/projects/$projectId/apps/$appName/logs" });
  const navigate = useNavigate({ from: "/projects/$projectId/apps/$appName/logs" });
  const { view, state } = useLogView(projectId, appName, search);
  /** Somebody pressed Pause: scrolling to the end does not undo that. */
  const isHeldFast = useRef(false);
  const isNarrow = Boolean(search.search || search.stream || search.runId || search.replica);
  const isWrapped = search.wrap !== false;
  const change = (next: Record<string, unknown>): void => {
    isHeldFast.current = false;
    void navigate({ search: (last) => readLogSearch({ ...last, ...next }), replace: true });
  };
  const toggleFollow = (): void => {
    isHeldFast.current = !state.isPaused;
    if (state.isPaused) view.resume();
    else view.pause();
  };
  const onAtEnd = (isAtEnd: boolean): void => {
    if (!isAtEnd) view.pause();
    else if (state.isPaused && !isHeldFast.current) view.resume();
  };
  const download = (): void => {
    const lines = state.lines.map(({ timestamp, text }) => `${timestamp} ${plainLine(text)}\n`);
    saveText(`${appName}.log`, lines.join(""));
  };
  return (
    <Card isFlush>
      <div className="flex flex-wrap items-end gap-3 border-b border-line p-3">
        <LogFilters filter={search} onChange={change} />
        <div className="flex flex-wrap items-center gap-2">
          <LiveMark state={state} />
          <Button onClick={toggleFollow} className="min-w-32">
            {state.isPaused ? (state.heldCount > 0 ? `Follow (${held(state)} new)` : "Follow") : "Pause"}
          </Button>
          <Picker
            label="Long lines"
            names={["wrap", "scroll"]}
            titles={{ wrap: "Wrap", scroll: "Scroll" }}
            picked={isWrapped ? "wrap" : "scroll"}
            onPick={(name) => change({ wrap: name === "wrap" })}
          />
          <Button disabled={state.lines.length === 0} onClick={download}>
            Download
          </Button>
        </div>
      </div>
      {search.replica && (
        <p className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-1.5 text-ink-soft">
          Only replica <code className="font-mono text-[0.9rem] break-all">{search.replica}</code>
          <Button size="small" look="quiet" onClick={() => change({ replica: "" })}>
            Show all
          </Button>
        </p>
      )}
      {state.error !== null && <Problem error={state.error} onRetry={() => view.open()} />}
      {state.lines.length > 0 ? (
        <LogLines
          projectId={projectId}
          appName={appName}
          lines={state.lines}
          isWrapped={isWrapped}
          isFollowing={!state.isPaused}
          onAtEnd={onAtEnd}
          head={<Older state={state} onLoad={() => void view.loadOlder()} />}
        />
      ) : (
        <div className="h-[max(20rem,calc(100vh-22rem))] overflow-hidden p-3">
          {state.isLoading ? <Lines /> : <NoLines {...search} isNarrow={isNarrow} state={state} />}
          {!state.isLoading && <Older state={state} onLoad={() => void view.loadOlder()} />}
        </div>
      )}
    </Card>
  );
}

function LiveMark({ state: { isLive, isPaused, isLoading } }: { readonly state: LogState }) {
  if (isPaused) return <Badge>paused</Badge>;
  if (isLive) return <Badge tone="good">live</Badge>;
  return <Badge tone={isLoading ? "neutral" : "warn"}>connecting</Badge>;
}

function Older({ state, onLoad }: { readonly state: LogState; readonly onLoad: () => void }) {
  if (!state.hasOlder) return null;
  return (
    <div className="sticky left-0 flex justify-center pb-2 font-sans">
      <Button size="small" isBusy={state.isLoadingOlder} onClick={onLoad}>
        {state.lines.length === 0 ? "Look further back" : "Load older"}
      </Button>
    </div>
  );
}

function NoLines({
  isNarrow,
  runId,
  state,
}: LogFilter & { readonly isNarrow: boolean; readonly state: LogState }) {
  if (state.error !== null) return null;
  if (state.hasOlder) return <Empty title="Nothing found so far">There is more log before this.</Empty>;
  if (isNarrow) {
    return (
      <Empty title="No such lines">
        {runId ? "No line of this run matches." : "No line matches."} Old lines are removed, by default after
        30 days. New lines that match appear here.
      </Empty>
    );
  }
  return (
    <Empty title="Nothing printed yet">
      Whatever the app prints, with <code>print</code> or <code>logging</code>, on stdout or stderr, appears
      here at once.
    </Empty>
  );
}

function Lines() {
  return (
    <div aria-hidden="true" className="flex flex-col gap-2.5">
      {[70, 45, 60, 30, 55, 80, 40, 65].map((percent) => (
        <span key={percent} style={{ width: `${percent}%` }}>
          <Skeleton className="h-3" />
        </span>
      ))}
    </div>
  );
}

function held({ heldCount }: LogState): string {
  return heldCount >= MAX_LINES ? `${count(MAX_LINES)}+` : count(heldCount);
}
