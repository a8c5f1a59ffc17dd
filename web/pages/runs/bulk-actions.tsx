import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { bulkCountQuery, bulkJobsQuery, fittingActions, isGoing } from "../../api/bulk-jobs.ts";
import { startBulkJob, stopBulkJob } from "../../api/bulk-jobs.ts";
import type { BulkAction, BulkJobRecord } from "../../api/bulk-jobs.ts";
import type { RunSearch } from "../../api/run-search.ts";
import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { count } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

type Ids = { readonly projectId: string; readonly appName: string };

const WORDS: Readonly<
  Record<
    BulkAction,
    { readonly button: string; readonly title: string; readonly what: string; readonly going: string }
  >
> = {
  retry: {
    button: "Run again",
    title: "Run these again?",
    what: "Each becomes a new async run with the same arguments, as the app’s current version runs it. Without a state chosen, only failed runs are run again.",
    going: "Running again",
  },
  cancel: {
    button: "Cancel",
    title: "Cancel these?",
    what: "Those that wait and those that run end as cancelled.",
    going: "Cancelling",
  },
  delete: {
    button: "Delete",
    title: "Delete these?",
    what: "Their records, arguments and results are removed for good. Runs that have not ended stay.",
    going: "Deleting",
  },
};

/** What can be done to all runs that the filters of an app's list let through. */
export function BulkActions({ ids, search }: { readonly ids: Ids; readonly search: RunSearch }) {
  const [chosen, setChosen] = useState<BulkAction | null>(null);
  return (
    <div className="flex flex-wrap items-center gap-2">
      <span className="text-ink-soft">
        {Object.keys(search).length === 0 ? "All runs:" : "All that match:"}
      </span>
      {fittingActions(search).map((action) => (
        <Button key={action} size="small" onClick={() => setChosen(action)}>
          {WORDS[action].button}…
        </Button>
      ))}
      <Going ids={ids} />
      <Dialog
        title={chosen === null ? "" : WORDS[chosen].title}
        isOpen={chosen !== null}
        onClose={() => setChosen(null)}
      >
        {chosen !== null && (
          <Question ids={ids} action={chosen} search={search} onClose={() => setChosen(null)} />
        )}
      </Dialog>
    </div>
  );
}

/** Asks with the number of runs. */
function Question({
  ids,
  action,
  search,
  onClose,
}: {
  readonly ids: Ids;
  readonly action: BulkAction;
  readonly search: RunSearch;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const { data: found, error, refetch } = useQuery(bulkCountQuery(ids, action, search));
  const { mutate, isPending } = useMutation({
    mutationFn: () => startBulkJob(ids, action, search),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: bulkJobsQuery(ids).queryKey });
      tell(`${WORDS[action].going}: this goes on in the background.`);
    },
    onError: tellError,
    onSettled: onClose,
  });
  if (error) return <Problem error={error} onRetry={() => void refetch()} />;
  const isNone = found?.exact === true && found.count === 0;
  return (
    <>
      <p className="font-medium">{found ? foundText(found) : <Skeleton className="h-5 w-40" />}</p>
      <p className="mt-2 text-ink-soft">{WORDS[action].what}</p>
      <div className="mt-5 flex justify-end gap-2">
        <Button onClick={onClose}>Keep as they are</Button>
        <Button
          look={action === "retry" ? "primary" : "danger"}
          isBusy={isPending || !found}
          disabled={isNone}
          onClick={() => mutate()}
        >
          {WORDS[action].button}
        </Button>
      </div>
    </>
  );
}

function foundText({ count: found, exact }: { readonly count: number; readonly exact: boolean }): string {
  if (exact && found === 0) return "No run matches.";
  if (exact) return found === 1 ? "1 run matches." : `${count(found)} runs match.`;
  return `${count(found)} runs or more match.`;
}

/** The actions in progress. */
function Going({ ids }: { readonly ids: Ids }) {
  const queries = useQueryClient();
  const { data: jobs = [] } = useQuery(bulkJobsQuery(ids));
  const stop = useMutation({
    mutationFn: (id: string) => stopBulkJob(ids, id),
    onSuccess: async () => await queries.invalidateQueries({ queryKey: bulkJobsQuery(ids).queryKey }),
    onError: tellError,
  });
  return jobs.filter(isGoing).map((job) => (
    <span
      key={job.id}
      role="status"
      className="inline-flex items-center gap-2 rounded-full border border-line px-3 py-0.5 text-ink-soft"
    >
      <span className="tabular">{goingText(job)}</span>
      <Button size="small" look="quiet" isBusy={stop.isPending} onClick={() => stop.mutate(job.id)}>
        Stop
      </Button>
    </span>
  ));
}

function goingText({ action, done, skipped, total }: BulkJobRecord): string {
  const of = total === null ? "" : ` of ${count(total)}`;
  return `${WORDS[action].going} ${count(done + skipped)}${of}`;
}
