import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { replicasQuery } from "../../api/replicas.ts";
import { attemptsQuery, isOver } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { classes } from "../../parts/classes.ts";
import { exact, span } from "../../parts/format.ts";
import { isCold, runScale, webhookScale } from "./time-spans.ts";
import type { Scale, SpanTone, TimeSpan } from "./time-spans.ts";

const TONES: Record<SpanTone, string> = {
  wait: "bg-warn",
  cold: "bg-busy",
  run: "bg-accent",
  good: "bg-good",
  bad: "bg-bad",
  mark: "bg-ink-soft",
};
const TICK_MS = 250;

/** Where a run's time went, drawn to scale. */
export function Timeline({
  ids,
  run,
  firstChunkMs,
}: {
  readonly ids: RunIds;
  readonly run: Run;
  /** When the first chunk came; null where nobody saw it. */
  readonly firstChunkMs: number | null;
}) {
  const nowMs = useTick(!isOver(run));
  const { data: attempts = [] } = useQuery(attemptsQuery(ids, run));
  const { data: replicas } = useQuery({
    ...replicasQuery(ids.projectId, ids.appName),
    enabled: isCold(run),
    refetchInterval: false,
  });
  // Known while the replica lives.
  const replica = replicas?.find(({ containerId }) => containerId === run.containerId);
  const webhook = webhookScale(run, attempts);
  return (
    <Card title="Timeline">
      <ScaleView scale={runScale(run, firstChunkMs, nowMs, replica?.startPhases ?? [])} label="The run" />
      {webhook && (
        <>
          <h3 className="mt-4 mb-2 font-medium">Webhook</h3>
          <ScaleView scale={webhook} label="Deliveries" />
        </>
      )}
    </Card>
  );
}

function ScaleView({ scale, label }: { readonly scale: Scale; readonly label: string }) {
  const totalMs = scale.toMs - scale.fromMs;
  return (
    <>
      <ol aria-label={label} className="flex flex-col gap-1">
        {scale.spans.map((part) => (
          <SpanRow key={part.title} part={part} scale={scale} />
        ))}
      </ol>
      <div
        aria-hidden="true"
        className="tabular mt-1.5 mr-26 ml-24 flex justify-between border-t border-line pt-1 text-[0.82rem] text-ink-faint"
      >
        <span>0</span>
        <span>{span(totalMs / 2)}</span>
        <span>{span(totalMs)}</span>
      </div>
    </>
  );
}

function SpanRow({ part, scale }: { readonly part: TimeSpan; readonly scale: Scale }) {
  const { title, tone, fromMs, toMs, isOpen, note } = part;
  const totalMs = scale.toMs - scale.fromMs;
  const isMark = tone === "mark";
  const left = `${((fromMs - scale.fromMs) / totalMs) * 100}%`;
  const width = `${((toMs - fromMs) / totalMs) * 100}%`;
  return (
    <li title={exact(fromMs)}>
      <div className="flex h-6 items-center gap-2">
        <span className="w-22 shrink-0 truncate text-ink-soft">{title}</span>
        <span className="relative h-4 min-w-0 flex-1 rounded-sm bg-sunken">
          <span
            className={classes(
              "absolute inset-y-0 rounded-sm",
              TONES[tone],
              isMark ? "-ml-px w-0.5" : "min-w-0.5",
              isOpen && "animate-[shimmer_1.6s_infinite]",
            )}
            style={isMark ? { left } : { left, width }}
          />
        </span>
        <span className="tabular w-24 shrink-0 text-right text-[0.9rem]">
          {isMark ? `at ${span(fromMs - scale.fromMs)}` : span(toMs - fromMs)}
        </span>
      </div>
      {note && <p className="mr-26 ml-24 text-[0.86rem] break-words text-ink-soft">{note}</p>}
    </li>
  );
}

/** The time, while something moves. */
function useTick(isMoving: boolean): number {
  const [nowMs, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isMoving) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  return nowMs;
}
