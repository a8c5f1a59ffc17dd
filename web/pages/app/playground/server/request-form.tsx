import type { RequestDraft } from "../../../../api/request-of-run.ts";
import { METHODS, headerFault, takesBody } from "../../../../api/server-call.ts";
import { Button } from "../../../../parts/button.tsx";
import { Choice, Field, TextField } from "../../../../parts/field.tsx";
import { Form } from "../../../../parts/form.tsx";

type Props = {
  readonly draft: RequestDraft;
  readonly onChange: (draft: RequestDraft) => void;
  readonly isBusy: boolean;
  readonly onSend: () => void;
  readonly onStop: () => void;
};

/** A request to a server: any path, with headers and a body. */
export function RequestForm({ draft, onChange, isBusy, onSend, onStop }: Props) {
  const { method, path, headers, body } = draft;
  const fault = headerFault(headers);
  const submit = (): void => {
    if (fault === null && !isBusy) onSend();
  };
  return (
    <Form onSubmit={submit} noValidate>
      <div className="flex flex-wrap items-end gap-3">
        <div className="w-28">
          <Choice
            label="Method"
            value={method}
            onChange={({ target }) => onChange({ ...draft, method: target.value })}
          >
            {METHODS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </Choice>
        </div>
        <div className="min-w-40 flex-1">
          <PathField path={path} onChange={(next) => onChange({ ...draft, path: next })} />
        </div>
      </div>
      <TextField
        label="Headers"
        hint="One per line, as Name: value. Your own token is added; the browser sets Host, Origin and Cookie."
        error={fault ?? undefined}
        rows={3}
        spellCheck={false}
        autoComplete="off"
        value={headers}
        onChange={({ target }) => onChange({ ...draft, headers: target.value })}
      />
      {takesBody(method) && (
        <TextField
          label="Body"
          hint="Unless a header says otherwise, it is sent as JSON if it is JSON, and as plain text if not."
          rows={Math.min(24, Math.max(6, body.split("\n").length + 1))}
          spellCheck={false}
          value={body}
          onChange={({ target }) => onChange({ ...draft, body: target.value })}
        />
      )}
      <div className="flex gap-2">
        <Button type="submit" look="primary" disabled={fault !== null} isBusy={isBusy}>
          Send {method}
        </Button>
        {isBusy && <Button onClick={onStop}>Stop</Button>}
      </div>
    </Form>
  );
}

/** A path of the app, with its query. */
export function PathField({
  path,
  disabled,
  onChange,
}: {
  readonly path: string;
  readonly disabled?: boolean;
  readonly onChange: (path: string) => void;
}) {
  return (
    <Field
      label="Path"
      value={path}
      disabled={disabled}
      placeholder="/"
      spellCheck={false}
      autoComplete="off"
      autoCapitalize="none"
      className="font-mono text-[0.9rem]"
      onChange={({ target }) => onChange(target.value)}
    />
  );
}
