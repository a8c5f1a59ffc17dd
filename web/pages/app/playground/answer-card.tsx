import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { CallAnswer } from "../../../api/call.ts";
import type { Messages } from "../../../api/message-log.ts";
import type { TranscriptView } from "../../../api/run-search.ts";
import { runQuery } from "../../../api/runs.ts";
import type { RunIds } from "../../../api/runs.ts";
import { Badge, StateBadge } from "../../../parts/badge.tsx";
import { Card } from "../../../parts/card.tsx";
import { CodeBlock } from "../../../parts/copy.tsx";
import { span } from "../../../parts/format.ts";
import { MessageView, ViewPicker } from "../../../parts/messages.tsx";
import { prettyText } from "../../../parts/payload-text.ts";
import { Problem } from "../../../parts/problem.tsx";
import { AsyncResult } from "./async-result.tsx";

type Props = {
  readonly projectId: string;
  readonly appName: string;
  readonly answer: CallAnswer | null;
  readonly messages: Messages;
  readonly error: unknown;
  readonly isBusy: boolean;
  readonly view: TranscriptView;
  readonly onView: (view: TranscriptView) => void;
};

/** What came back, as it comes. */
export function AnswerCard(props: Props) {
  const { projectId, appName, answer, error, isBusy, view, onView } = props;
  return (
    <Card title="Answer" actions={answer?.isStream && <ViewPicker view={view} onChange={onView} />}>
      {answer && <AnswerHead answer={answer} projectId={projectId} appName={appName} />}
      <div aria-live="polite">
        {error ? (
          <Problem error={error} />
        ) : answer ? (
          <Body {...props} answer={answer} />
        ) : (
          <p className="py-2 text-ink-soft">
            {isBusy
              ? "Waiting for the answer. If no replica is running, one is started first."
              : "Call it to see what it answers."}
          </p>
        )}
      </div>
    </Card>
  );
}

/** How a call was answered, how long it took, and the way to its run. */
export function AnswerHead({
  answer: { status, headMs, totalMs, isStopped, runId, isStream },
  projectId,
  appName,
}: {
  readonly answer: Pick<CallAnswer, "status" | "headMs" | "totalMs" | "isStopped" | "runId" | "isStream">;
  readonly projectId: string;
  readonly appName: string;
}) {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1">
      <Badge tone={status < 400 ? "good" : "bad"}>{status}</Badge>
      <span className="tabular text-ink-soft">
        {isStream && `first byte ${span(headMs)}, `}
        {totalMs !== null ? span(totalMs) : isStopped ? "stopped" : "still coming"}
      </span>
      {runId !== null && (
        <RunLink ids={{ projectId, appName, runId }}>
          {status === 202 ? "Watch the run" : "Open the run"}
        </RunLink>
      )}
      {runId !== null && status === 202 && <RunState ids={{ projectId, appName, runId }} />}
    </div>
  );
}

function RunLink({ ids, children }: { readonly ids: RunIds; readonly children: ReactNode }) {
  return (
    <Link
      to="/projects/$projectId/apps/$appName/runs/$runId"
      params={ids}
      title={ids.runId}
      className="text-accent underline"
    >
      {children}
    </Link>
  );
}

/** How an async run is doing meanwhile. */
function RunState({ ids }: { readonly ids: RunIds }) {
  const { data: run } = useQuery(runQuery(ids));
  return run ? <StateBadge state={run.status} /> : null;
}

function Body({ projectId, appName, answer, messages, view }: Props & { readonly answer: CallAnswer }) {
  const { status, runId } = answer;
  if (status === 202 && runId !== null) return <AsyncResult ids={{ projectId, appName, runId }} />;
  if (answer.isStream) {
    const empty = answer.totalMs === null ? "Nothing yet." : "It yielded nothing.";
    return <MessageView messages={messages} view={view} label="Answer" empty={empty} />;
  }
  if (answer.totalMs === null) return <p className="py-2 text-ink-soft">Reading…</p>;
  if (answer.text === "") return <p className="py-2 text-ink-soft">The answer has no body.</p>;
  return (
    <>
      {answer.isCut && (
        <p className="mb-2 text-[0.9rem] text-ink-faint">
          Only the beginning is shown; the run's page has the rest.
        </p>
      )}
      <CodeBlock text={prettyText(answer.text, answer.isCut)} label="Answer" />
    </>
  );
}
