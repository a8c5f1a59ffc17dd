import type { ServerAnswer } from "../../../../api/server-call.ts";
import type { TranscriptView } from "../../../../api/run-search.ts";
import { Button } from "../../../../parts/button.tsx";
import { Card } from "../../../../parts/card.tsx";
import { CodeBlock } from "../../../../parts/copy.tsx";
import { bytes } from "../../../../parts/format.ts";
import { MessageView, ViewPicker } from "../../../../parts/messages.tsx";
import { prettyText } from "../../../../parts/payload-text.ts";
import { Problem } from "../../../../parts/problem.tsx";
import { AnswerHead } from "../answer-card.tsx";
import type { RequestState } from "./use-request.ts";

type Props = {
  readonly projectId: string;
  readonly appName: string;
  readonly request: RequestState;
  readonly view: TranscriptView;
  readonly onView: (view: TranscriptView) => void;
};

/** What a server answered, as it comes. */
export function RequestAnswer({ projectId, appName, request, view, onView }: Props) {
  const { answer, body, error, isBusy, save } = request;
  return (
    <Card
      title="Answer"
      actions={
        <>
          {answer?.kind === "events" && <ViewPicker view={view} onChange={onView} />}
          {body.bytes > 0 && body.isKept && (
            <Button size="small" look="quiet" onClick={save}>
              Download
            </Button>
          )}
        </>
      }
    >
      {answer && <AnswerHead answer={answer} projectId={projectId} appName={appName} />}
      {answer && <HeaderList headers={answer.headers} />}
      <div aria-live="polite">
        {error !== null && <Problem error={error} />}
        {answer ? (
          <Body answer={answer} request={request} view={view} />
        ) : (
          error === null && (
            <p className="py-2 text-ink-soft">
              {isBusy
                ? "Waiting for the answer. If no replica is running, one is started first."
                : "Send a request to see what the server answers."}
            </p>
          )
        )}
      </div>
    </Card>
  );
}

function HeaderList({ headers }: Pick<ServerAnswer, "headers">) {
  return (
    <details className="mb-3">
      <summary className="w-fit cursor-pointer text-ink-soft hover:text-ink">
        {headers.length} headers
      </summary>
      <dl className="mt-2 grid gap-x-4 gap-y-0.5 font-mono text-[0.88rem] sm:grid-cols-[max-content_1fr]">
        {headers.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-ink-soft">{name}</dt>
            <dd className="min-w-0 wrap-anywhere">{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function Body({
  answer: { kind, contentType, totalMs, isStopped },
  request: { messages, body },
  view,
}: {
  readonly answer: ServerAnswer;
  readonly request: RequestState;
  readonly view: TranscriptView;
}) {
  const isOver = totalMs !== null || isStopped;
  if (kind === "events") {
    const empty = isOver ? "It sent no events." : "Nothing yet.";
    return <MessageView messages={messages} view={view} label="Answer" empty={empty} />;
  }
  if (body.bytes === 0) {
    return <p className="py-2 text-ink-soft">{isOver ? "The answer has no body." : "Reading…"}</p>;
  }
  const size = bytes(body.bytes);
  if (kind === "bytes") {
    return (
      <p className="py-2 wrap-anywhere text-ink-soft">
        {size} of {contentType}
        {isOver ? "." : " so far."} {!body.isKept && "That is too much to be kept here: use the command."}
      </p>
    );
  }
  return (
    <>
      {body.isCut && <p className="mb-2 text-[0.9rem] text-ink-faint">The beginning of {size}.</p>}
      <CodeBlock text={isOver ? prettyText(body.text, body.isCut) : body.text} label="Answer" />
    </>
  );
}
