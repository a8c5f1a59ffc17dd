import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { payloadQuery } from "../../api/payload.ts";
import { cancelRun, isOver, runQuery } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { snippet } from "../../api/snippets.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

/** What can be done with a run: cancel it, run it again, take it elsewhere. */
export function RunActions({ ids, run }: { readonly ids: RunIds; readonly run: Run }) {
  const { projectId, appName, runId } = ids;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const { data: input } = useQuery(payloadQuery(ids, "input", true));
  const { mutate: cancel, isPending } = useMutation({
    mutationFn: () => cancelRun(ids),
    onSuccess: () => tell("The run is cancelled."),
    onError: tellError,
    onSettled: async () => {
      setAsking(false);
      await queries.invalidateQueries({ queryKey: runQuery(ids).queryKey });
    },
  });
  const runAgain = (): void => {
    const to = "/projects/$projectId/apps/$appName/playground" as const;
    void navigate({ to, params: { projectId, appName }, search: { from: runId } });
  };
  const curl = snippet("curl", {
    projectId,
    appName,
    functionName: run.functionName,
    mode: run.async ? "async" : "sync",
    // What is too long for a command is a file.
    body: input && !input.isCut ? input.text : "@input.json",
  });
  return (
    <>
      {!isOver(run) && (
        <Button look="danger" onClick={() => setAsking(true)}>
          Cancel
        </Button>
      )}
      <Button onClick={runAgain}>Run again</Button>
      <Copy text={curl} label="Copy as curl" size="normal" />
      <Confirm
        title="Cancel this run?"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={() => cancel()}
        action="Cancel run"
        isBusy={isPending}
      >
        Its caller is told at once, and its code is stopped. This cannot be undone.
      </Confirm>
    </>
  );
}
