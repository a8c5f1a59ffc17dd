import { isOver } from "../../api/runs.ts";
import type { Run } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { Time } from "../../parts/time.tsx";

/** How far a run says that it is, while it does. */
export function RunProgress({ run }: { readonly run: Run }) {
  const { progress } = run;
  if (progress === undefined || isOver(run)) return null;
  const { fraction, message, at } = progress;
  const percent = fraction === null ? null : Math.floor(fraction * 100);
  return (
    <Card title="Progress">
      <div className="flex items-center gap-3">
        <div
          role="progressbar"
          aria-label="Progress"
          aria-valuemin={0}
          aria-valuemax={100}
          {...(percent !== null && { "aria-valuenow": percent })}
          className="h-2 flex-1 overflow-hidden rounded-full bg-line"
        >
          <div className="h-full bg-accent" style={{ width: `${percent ?? 0}%` }} />
        </div>
        {percent !== null && <span className="w-12 text-right tabular-nums">{percent} %</span>}
      </div>
      <p className="mt-2 flex flex-wrap justify-between gap-x-4 text-ink-soft">
        <span className="min-w-0 break-words">{message ?? ""}</span>
        <Time at={at} />
      </p>
    </Card>
  );
}
