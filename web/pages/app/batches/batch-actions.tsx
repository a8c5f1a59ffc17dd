import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { batchQuery, batchResults, cancelBatch, isBatchOver, retryBatch } from "../../../api/batches.ts";
import type { BatchIds, BatchRecord } from "../../../api/batches.ts";
import { Button } from "../../../parts/button.tsx";
import { Confirm } from "../../../parts/dialog.tsx";
import { saveBlob } from "../../../parts/save-text.ts";
import { tell, tellError } from "../../../parts/toasts.tsx";

/** What can be done with a batch: cancel it, run its failures again, save its results. */
export function BatchActions({ ids, batch }: { readonly ids: BatchIds; readonly batch: BatchRecord }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const cancel = useMutation({
    mutationFn: () => cancelBatch(ids),
    onSuccess: () => tell("The batch is being cancelled."),
    onError: tellError,
    onSettled: async () => {
      setAsking(false);
      await queries.invalidateQueries({ queryKey: batchQuery(ids).queryKey });
    },
  });
  const retry = useMutation({
    mutationFn: () => retryBatch(ids),
    onSuccess: (batchId) => {
      tell("The failed lines run again.");
      const { projectId, appName } = ids;
      const to = "/projects/$projectId/apps/$appName/batches/$batchId" as const;
      void navigate({ to, params: { projectId, appName, batchId } });
    },
    onError: tellError,
  });
  const save = useMutation({
    mutationFn: () => batchResults(ids),
    onSuccess: (results) => saveBlob(`${ids.batchId}.jsonl`, results),
    onError: tellError,
  });
  const isOver = isBatchOver(batch);
  return (
    <span className="flex flex-wrap gap-1.5">
      {!isOver && batch.status !== "cancelling" && (
        <Button size="small" look="danger" onClick={() => setAsking(true)}>
          Cancel
        </Button>
      )}
      {isOver && batch.failed > 0 && (
        <Button size="small" isBusy={retry.isPending} onClick={() => retry.mutate()}>
          Retry failures
        </Button>
      )}
      <Button size="small" isBusy={save.isPending} onClick={() => save.mutate()}>
        Save results
      </Button>
      <Confirm
        title="Cancel this batch?"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={() => cancel.mutate()}
        action="Cancel batch"
        isBusy={cancel.isPending}
      >
        Lines that have not ended are cancelled, also those that run. This cannot be undone.
      </Confirm>
    </span>
  );
}
