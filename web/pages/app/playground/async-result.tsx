import { useQuery } from "@tanstack/react-query";
import { isEventType } from "../../../api/media-type.ts";
import { payloadQuery } from "../../../api/payload.ts";
import { isOver, runQuery } from "../../../api/runs.ts";
import type { Run, RunIds } from "../../../api/runs.ts";
import { count } from "../../../parts/format.ts";
import { Problem } from "../../../parts/problem.tsx";
import { NotKept, PayloadText } from "../../run/payload-card.tsx";

/** What an async run comes to: where it stands while it waits, how far it is, then its result or its error. */
export function AsyncResult({ ids }: { readonly ids: RunIds }) {
  const { data: run, error } = useQuery(runQuery(ids));
  const isEnded = run !== undefined && isOver(run);
  const { data: result, error: resultError } = useQuery(payloadQuery(ids, "result", isEnded));
  if (error ?? resultError) return <Problem error={error ?? resultError} />;
  if (run === undefined || (isEnded && result === undefined))
    return <p className="py-2 text-ink-soft">Accepted. Its result is shown here.</p>;
  if (!isEnded) return <p className="py-2 text-ink-soft">{standing(run)}</p>;
  if (run.status === "cancelled") return <p className="py-2 text-ink-soft">The run was cancelled.</p>;
  if (result === null || result === undefined) return <NotKept what="The result" />;
  if (isEventType(result.contentType))
    return <p className="py-2 text-ink-soft">It yielded messages: the page of the run shows them.</p>;
  return <PayloadText payload={result} label="Result" />;
}

/** Where a run stands that has not ended. */
function standing({ status, position, progress }: Run): string {
  if (status === "queued") {
    if (position === undefined) return "It waits. Its result is shown here.";
    return position === 1
      ? "It is the next one in the queue."
      : `It is number ${count(position)} in the queue.`;
  }
  const percent = progress?.fraction == null ? "" : `, ${Math.floor(progress.fraction * 100)} % done`;
  return `It runs${percent}${progress?.message ? `: ${progress.message}` : ""}. Its result is shown here.`;
}
