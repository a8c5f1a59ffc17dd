import type { AppFunction } from "../../../api/app-document.ts";
import { Button } from "../../../parts/button.tsx";
import { TextField } from "../../../parts/field.tsx";
import { Form } from "../../../parts/form.tsx";
import { ArgumentField } from "./argument-field.tsx";
import { faultOf, withArgument, withJson } from "./arguments.ts";
import type { Draft } from "./arguments.ts";

type Props = {
  readonly fn: AppFunction;
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
  readonly isJson: boolean;
  /** What the service found wrong, by argument. */
  readonly faults: Readonly<Record<string, string>>;
  readonly isBusy: boolean;
  readonly onSend: () => void;
  readonly onStop: () => void;
};

/** What a function is called with, as a form or as JSON; the two are in step. */
export function CallForm({ fn, draft, onChange, isJson, faults, isBusy, onSend, onStop }: Props) {
  const fault = faultOf(draft);
  const named = new Set(fn.arguments.map(({ name }) => name));
  const others = Object.keys(draft.texts).filter((name) => !named.has(name));
  const submit = (): void => {
    if (fault === null && !isBusy) onSend();
  };
  return (
    <Form onSubmit={submit} noValidate>
      {isJson ? (
        <JsonField draft={draft} fault={fault ?? faultsText(faults)} onChange={onChange} />
      ) : (
        <>
          {fn.arguments.map((argument) => (
            <ArgumentField
              key={argument.name}
              argument={argument}
              text={draft.texts[argument.name]}
              error={faults[argument.name]}
              onChange={(text) => onChange(withArgument(draft, argument.name, text))}
            />
          ))}
          {fn.arguments.length === 0 && !fn.takesMore && (
            <p className="text-ink-soft">The function takes no arguments.</p>
          )}
          {fn.takesMore && others.length === 0 && (
            <p className="text-[0.9rem] text-ink-faint">It accepts more arguments: add them as JSON.</p>
          )}
          {others.length > 0 && (
            <p className="text-[0.9rem] break-words text-ink-faint">Also sent: {others.join(", ")}</p>
          )}
          {others.map(
            (name) =>
              faults[name] !== undefined && (
                <p key={name} role="alert" className="break-words text-bad">
                  <span className="font-mono">{name}</span>: {faults[name]}
                </p>
              ),
          )}
        </>
      )}
      <div className="flex gap-2">
        <Button type="submit" look="primary" disabled={fault !== null} isBusy={isBusy}>
          Call {fn.name}
        </Button>
        {isBusy && <Button onClick={onStop}>Stop</Button>}
      </div>
    </Form>
  );
}

function JsonField({
  draft,
  fault,
  onChange,
}: {
  readonly draft: Draft;
  readonly fault: string | undefined;
  readonly onChange: (draft: Draft) => void;
}) {
  return (
    <TextField
      label="Arguments as JSON"
      error={fault}
      rows={Math.min(24, Math.max(8, draft.json.split("\n").length + 1))}
      spellCheck={false}
      value={draft.json}
      onChange={({ target }) => onChange(withJson(draft, target.value))}
    />
  );
}

function faultsText(faults: Readonly<Record<string, string>>): string | undefined {
  const texts = Object.entries(faults).map(([name, fault]) => `${name}: ${fault}`);
  return texts.length === 0 ? undefined : texts.join(" ");
}
