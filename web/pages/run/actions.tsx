import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { payloadQuery } from "../../api/payload.ts";
import type { Payload } from "../../api/payload.ts";
import { requestOf } from "../../api/request-of-run.ts";
import { cancelRun, isOfServer, isOver, runQuery } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { bodyOf } from "../../api/server-call.ts";
import { serverCurl } from "../../api/server-snippets.ts";
import { snippet } from "../../api/snippets.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

/** The command for the same call. What is too long for a command, or no text, is a file. */
function curlOf({ projectId, appName }: RunIds, run: Run, input: Payload | null | undefined): string {
  if (isOfServer(run)) {
    const call = { ...requestOf(run, input), method: run.method, projectId, appName };
    const isFile = (run.requestBytes ?? 0) > 0 && bodyOf(call) === null;
    return serverCurl(call, isFile ? "input" : null);
  }
  return snippet("curl", {
    projectId,
    appName,
    functionName: run.functionName,
    mode: run.async ? "async" : "sync",
    body: input && !input.isCut ? input.text : "@input.json",
  });
}

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
    const search = { from: runId, ...(run.websocket && { kind: "websocket" as const }) };
    void navigate({ to, params: { projectId, appName }, search });
  };
  return (
    <>
      {!isOver(run) && (
        <Button look="danger" onClick={() => setAsking(true)}>
          Cancel
        </Button>
      )}
      <Button onClick={runAgain}>Run again</Button>
      {!run.websocket && <Copy text={curlOf(ids, run, input)} label="Copy as curl" size="normal" />}
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
