import { useNavigate } from "@tanstack/react-router";
import type { Payload } from "../../api/payload.ts";
import type { TranscriptView } from "../../api/run-search.ts";
import { isOfServer, isOver, isTalk } from "../../api/runs.ts";
import type { Run, RunIds } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { MessageView, ViewPicker } from "../../parts/messages.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { DownloadPayload, NotKept, PayloadText } from "./payload-card.tsx";
import type { Transcript } from "./transcript.ts";

type Props = {
  readonly ids: RunIds;
  readonly run: Run;
  /** Undefined while it is on its way, null when it is not kept. */
  readonly result: Payload | null | undefined;
  readonly isStream: boolean;
  readonly transcript: Transcript;
  readonly view: TranscriptView;
};

/** What a run answered: its result, or what it yields while it does. */
export function Output({ ids, run, result, isStream, transcript, view }: Props) {
  const navigate = useNavigate();
  const isShownAsMessages = !isOfServer(run) && (!isOver(run) || isStream);
  const setView = (next: TranscriptView): void => {
    const to = "/projects/$projectId/apps/$appName/runs/$runId" as const;
    void navigate({ to, params: ids, search: { view: next }, replace: true, resetScroll: false });
  };
  return (
    <Card
      title="Output"
      actions={
        <>
          {isShownAsMessages && <ViewPicker view={view} onChange={setView} />}
          {isOver(run) && result && <DownloadPayload ids={ids} kind="result" />}
        </>
      }
    >
      {isShownAsMessages ? (
        <Stream transcript={transcript} view={view} isOver={isOver(run)} />
      ) : isTalk(run) ? (
        <p className="py-2 text-ink-soft">What goes over a WebSocket is not stored.</p>
      ) : !isOver(run) ? (
        <p className="py-2 text-ink-soft">The response is shown here when it is complete.</p>
      ) : result === undefined ? (
        <Skeleton className="h-24 w-full" />
      ) : run.status === "cancelled" ? (
        <p className="py-2 text-ink-soft">The run was cancelled, so there is no result.</p>
      ) : run.error !== null && !isOfServer(run) ? (
        <p className="py-2 text-ink-soft">
          The run failed, so there is no result: its answer was the error above.
        </p>
      ) : result === null ? (
        <NotKept what="The result" />
      ) : (
        <PayloadText payload={result} label="Output" />
      )}
    </Card>
  );
}

function Stream({
  transcript: { messages, isTruncated, isRead, error },
  view,
  isOver: isEnded,
}: {
  readonly transcript: Transcript;
  readonly view: TranscriptView;
  readonly isOver: boolean;
}) {
  if (error) return <Problem error={error} />;
  if (isEnded && !isRead && messages.count === 0) return <Skeleton className="h-24 w-full" />;
  return (
    <>
      {isTruncated && <p className="mb-2 text-[0.9rem] text-ink-faint">Some of the output is not stored.</p>}
      <MessageView
        messages={messages}
        view={view}
        label="Output"
        empty={
          isEnded ? "It yielded nothing." : "Nothing yet. Output appears here as the function yields it."
        }
      />
      {isEnded && messages.isFull && (
        <p className="mt-2 text-[0.9rem] text-ink-faint">There may be more. Download it to see everything.</p>
      )}
    </>
  );
}
