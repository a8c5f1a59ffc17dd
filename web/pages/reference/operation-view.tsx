import { useState } from "react";
import type { ReactNode } from "react";
import type { ApiOperation } from "../../api/api-document.ts";
import type { Schema } from "../../api/schema.ts";
import { Badge } from "../../parts/badge.tsx";
import type { Tone } from "../../parts/badge.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { SchemaTable } from "./schema-table.tsx";
import { exampleOf } from "./schema-text.ts";
import { TryIt } from "./try-it.tsx";
import type { Caller } from "./use-caller.ts";

const TONES: Readonly<Record<string, Tone>> = { GET: "busy", POST: "good", DELETE: "bad" };
/** Who may call it, in words; a role is called by its name. */
const ACCESS: Readonly<Record<string, string>> = {
  anybody: "No token needed",
  any: "Any token",
  person: "A person who is signed in",
  operator: "The operator of the installation",
};

type Props = {
  readonly operation: ApiOperation;
  readonly schemas: Readonly<Record<string, Schema>>;
  readonly caller: Caller;
  readonly isLinked: boolean;
  readonly values: Readonly<Record<string, string>>;
  readonly onValue: (name: string, value: string) => void;
};

/** One operation: a line that opens to what it takes, what it answers, and a form to try it. */
export function OperationView(props: Props) {
  const { operation, isLinked } = props;
  const [isOpen, setOpen] = useState(isLinked);
  // A link to it opens it, also one that is followed while the page is there.
  const [wasLinked, setWasLinked] = useState(isLinked);
  if (isLinked !== wasLinked) {
    setWasLinked(isLinked);
    if (isLinked) setOpen(true);
  }
  return (
    <details
      id={operation.id}
      open={isOpen}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
      className="scroll-mt-4 border-t border-line first:border-t-0"
    >
      <summary className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5 hover:bg-sunken">
        <MethodBadge method={operation.method} />
        <code className="font-mono text-[0.92rem] break-all">{operation.path}</code>
        <span className="w-full text-ink-soft lg:w-auto">{operation.summary}</span>
      </summary>
      {isOpen && <Details {...props} />}
    </details>
  );
}

function MethodBadge({ method }: { readonly method: string }) {
  return <Badge tone={TONES[method] ?? "warn"}>{method}</Badge>;
}

function Details({ operation, schemas, caller, values, onValue }: Props) {
  const { id, access, body, responses } = operation;
  const taken = body?.content["application/json"]?.schema;
  const { "200": success, ...others } = responses;
  const [type, given] = Object.entries(success?.content ?? {})[0] ?? [];
  return (
    <div className="flex flex-col gap-5 border-t border-line px-4 py-4">
      <p className="text-ink-soft">
        {ACCESS[access] ?? `A token with the role ${access}, or more`} ·{" "}
        <code className="font-mono">{id}</code> ·{" "}
        <a href={`#${id}`} className="text-accent underline">
          Link
        </a>
      </p>
      {taken && (
        <Part title="Body">
          <SchemaTable schema={taken} label={`Body of ${id}`} />
        </Part>
      )}
      <Part title="Try it">
        <TryIt operation={operation} caller={caller} values={values} onValue={onValue} />
      </Part>
      {given && (
        <Part title={type === "application/json" ? "Answer 200" : `Answer 200, ${type}`}>
          <SchemaTable schema={given.schema} label={`Answer of ${id}`} />
          {type !== "application/octet-stream" && (
            <CodeBlock label="Example answer" text={JSON.stringify(exampleOf(given.schema), null, 2)} />
          )}
        </Part>
      )}
      <Part title="Errors">
        <Errors responses={others} schema={schemas["Error"]} id={id} />
      </Part>
    </div>
  );
}

function Part({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="flex min-w-0 flex-col gap-2">
      <h4 className="font-semibold">{title}</h4>
      {children}
    </section>
  );
}

/** Each status with its codes; the body is the same for all. */
function Errors({
  responses,
  schema,
  id,
}: {
  readonly responses: ApiOperation["responses"];
  readonly schema: Schema | undefined;
  readonly id: string;
}) {
  return (
    <>
      <dl className="flex flex-col gap-1.5">
        {Object.entries(responses).map(([status, { description }]) => (
          <div key={status} className="flex gap-3">
            <dt className="tabular w-9 shrink-0 font-medium">{status}</dt>
            <dd className="min-w-0 text-ink-soft">{description.replaceAll("`", "")}</dd>
          </div>
        ))}
      </dl>
      {schema && (
        <details>
          <summary className="text-ink-soft">The body of an error</summary>
          <SchemaTable schema={schema} label={`Errors of ${id}`} />
        </details>
      )}
    </>
  );
}
