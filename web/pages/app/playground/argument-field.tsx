import { useState } from "react";
import type { Argument } from "../../../api/app-document.ts";
import { Choice, Field, TextField } from "../../../parts/field.tsx";
import { isJson } from "./arguments.ts";

type Props = {
  readonly argument: Argument;
  /** JSON; undefined while it is not given. */
  readonly text: string | undefined;
  readonly error: string | undefined;
  readonly onChange: (text: string | undefined) => void;
};

/** A field for an argument, by its type. */
export function ArgumentField(props: Props) {
  const { argument, text, error, onChange } = props;
  const { kind, isRequired, options } = argument;
  if (kind === "boolean" || kind === "choice") {
    const choices = kind === "boolean" ? ["true", "false"] : options;
    return (
      <Choice
        label={<Label argument={argument} />}
        error={error}
        value={text ?? ""}
        onChange={({ target }) => onChange(target.value || undefined)}
      >
        <option value="">{isRequired ? "Choose" : unsetText(argument)}</option>
        {text !== undefined && !choices.includes(text) && <option value={text}>{text}</option>}
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choiceText(choice)}
          </option>
        ))}
      </Choice>
    );
  }
  return kind === "text" ? <StringField {...props} /> : <RawField {...props} />;
}

/** Text, which is JSON in quotes; a value that is no text is shown as it is. */
function StringField({ argument, text, error, onChange }: Props) {
  const { isRequired, type } = argument;
  const value = text === undefined ? "" : stringOf(text);
  const change = (typed: string): void =>
    onChange(typed === "" && !isRequired ? undefined : JSON.stringify(typed));
  const shared = { label: <Label argument={argument} />, error, placeholder: placeholderOf(argument), value };
  // A format such as a date has one line.
  return type === "string" ? (
    <TextField {...shared} rows={2} onChange={({ target }) => change(target.value)} />
  ) : (
    <Field {...shared} onChange={({ target }) => change(target.value)} />
  );
}

/** A number, or any JSON: what is typed is sent. */
function RawField({ argument, text, error, onChange }: Props) {
  const [isLeft, setLeft] = useState(false);
  const fault = text !== undefined && isLeft && !isJson(text) ? faultText(argument) : undefined;
  const shared = {
    label: <Label argument={argument} />,
    error: error ?? fault,
    placeholder: placeholderOf(argument),
    value: text ?? "",
    spellCheck: false,
    onBlur: () => setLeft(true),
  };
  return argument.kind === "number" ? (
    <Field
      {...shared}
      inputMode="decimal"
      className="tabular"
      onChange={({ target }) => onChange(target.value.trim() || undefined)}
    />
  ) : (
    <TextField {...shared} rows={4} onChange={({ target }) => onChange(target.value || undefined)} />
  );
}

function Label({ argument: { name, type, isRequired } }: { readonly argument: Argument }) {
  return (
    <span className="flex flex-wrap items-baseline gap-x-2">
      <span className="font-mono break-all">{name}</span>
      <span className="text-[0.86rem] font-normal text-ink-faint">
        {type}
        {isRequired ? ", required" : ""}
      </span>
    </span>
  );
}

function placeholderOf({ defaultText }: Argument): string | undefined {
  return defaultText === undefined ? undefined : stringOf(defaultText).slice(0, 200);
}

function unsetText({ defaultText }: Argument): string {
  return defaultText === undefined ? "Not given" : `Default: ${choiceText(defaultText)}`;
}

function faultText({ kind }: Argument): string {
  return kind === "number" ? "This is not a number." : "This is not JSON.";
}

/** What a JSON string says; any other JSON as it is. */
function stringOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "string" ? value : text;
  } catch {
    return text;
  }
}

function choiceText(choice: string): string {
  return stringOf(choice) || choice;
}
