import { useEffect, useRef, useState } from "react";
import type { ApiOperation } from "../../api/api-document.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Field, TextField } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { span } from "../../parts/format.ts";
import { prettyText } from "../../parts/payload-text.ts";
import { Problem } from "../../parts/problem.tsx";
import { curlOf, missingOf, sendRequest, takesBytes } from "./request.ts";
import type { Filled } from "./request.ts";
import { exampleOf, ruleOf, typeOf } from "./schema-text.ts";
import type { Caller } from "./use-caller.ts";

/** More of an answer than this is not shown. */
const MAX_SHOWN = 256 * 1024;

type Answer = {
  readonly status: number;
  readonly ms: number;
  readonly text: string;
  readonly isCut: boolean;
};

type Props = {
  readonly operation: ApiOperation;
  readonly caller: Caller;
  /** Values of parameters; an operation that has one of the same name begins with it. */
  readonly values: Readonly<Record<string, string>>;
  readonly onValue: (name: string, value: string) => void;
};

/** A form for one operation that sends it, and shows the command for it and the answer. */
export function TryIt({ operation, caller, values, onValue }: Props) {
  const [body, setBody] = useState(() => exampleBody(operation));
  const [file, setFile] = useState<File | null>(null);
  const filled: Filled = { values, body, file };
  const { answer, error, isBusy, send, stop } = useSending(operation, caller);
  const missing = missingOf(operation, filled);
  const needsToken = operation.access !== "anybody" && !caller.isReady;
  return (
    <Form onSubmit={() => void send(filled)}>
      {operation.parameters.length > 0 && (
        <div className="grid gap-3 sm:grid-cols-2">
          {operation.parameters.map(({ name, required, schema }) => (
            <Field
              key={name}
              label={name}
              hint={[required ? "required" : null, typeOf(schema), ruleOf(schema)].filter(Boolean).join(", ")}
              value={values[name] ?? ""}
              autoComplete="off"
              spellCheck={false}
              // From now on nothing else fills it in: what comes late would stand beside what is typed.
              onFocus={({ target }) => onValue(name, target.value)}
              onChange={({ target }) => onValue(name, target.value)}
            />
          ))}
        </div>
      )}
      {takesBytes(operation) ? (
        <Field label="File" type="file" onChange={({ target }) => setFile(target.files?.[0] ?? null)} />
      ) : (
        operation.body && (
          <TextField
            label="Body"
            rows={Math.min(14, body.split("\n").length + 1)}
            value={body}
            spellCheck={false}
            onChange={({ target }) => setBody(target.value)}
          />
        )
      )}
      <CodeBlock label="Command" text={curlOf(operation, filled, location.origin)} />
      <div className="flex flex-wrap items-center gap-3">
        <Button
          type="submit"
          look={operation.method === "DELETE" ? "danger" : "primary"}
          isBusy={isBusy}
          disabled={missing.length > 0 || needsToken}
        >
          Send {operation.method}
        </Button>
        {isBusy && <Button onClick={stop}>Stop</Button>}
        <span className="text-ink-soft">
          {needsToken
            ? "Sign in or paste a token above to send it."
            : missing.length > 0
              ? `Fill in ${missing.join(", ")}.`
              : operation.method !== "GET" && "This changes the running service."}
        </span>
      </div>
      <div aria-live="polite">
        {error !== null && <Problem error={error} />}
        {answer && <AnswerView answer={answer} />}
      </div>
    </Form>
  );
}

function AnswerView({ answer: { status, ms, text, isCut } }: { readonly answer: Answer }) {
  return (
    <div className="flex flex-col gap-2">
      <p className="flex items-center gap-3">
        <Badge tone={status < 400 ? "good" : "bad"}>{status}</Badge>
        <span className="tabular text-ink-soft">{span(ms)}</span>
        {isCut && <span className="text-ink-faint">Only the beginning is shown.</span>}
      </p>
      {text === "" ? (
        <p className="text-ink-soft">The answer has no body.</p>
      ) : (
        <CodeBlock text={prettyText(text, isCut)} label="Answer" />
      )}
    </div>
  );
}

function exampleBody({ body }: ApiOperation): string {
  const schema = body?.content["application/json"]?.schema;
  return schema ? JSON.stringify(exampleOf(schema, true), null, 2) : "";
}

function useSending(operation: ApiOperation, caller: Caller) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const stopping = useRef<AbortController | null>(null);
  const stop = (): void => stopping.current?.abort();
  // An answer that nobody looks at is not waited for.
  useEffect(() => () => stopping.current?.abort(), []);
  const send = async (filled: Filled): Promise<void> => {
    const controller = new AbortController();
    stopping.current = controller;
    setBusy(true);
    setAnswer(null);
    setError(null);
    try {
      const start = performance.now();
      const token = operation.access === "anybody" ? null : await caller.token();
      const response = await sendRequest(operation, filled, token, controller.signal);
      await readShown(response, (text, isCut) =>
        setAnswer({ status: response.status, ms: performance.now() - start, text, isCut }),
      );
    } catch (thrown) {
      if (!controller.signal.aborted) setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return { answer, error, isBusy, send, stop };
}

/** Shows a body as it comes, and reads no more of it than is shown. */
async function readShown(response: Response, show: (text: string, isCut: boolean) => void): Promise<void> {
  show("", false);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value = "" } = (await reader?.read()) ?? { done: true };
    if (done) return;
    text += value;
    show(text.slice(0, MAX_SHOWN), text.length > MAX_SHOWN);
    if (text.length > MAX_SHOWN) return await reader?.cancel();
  }
}
