import { useState } from "react";
import { Field } from "../parts/field.tsx";

/** What a link carries behind its `#`: browsers send that to nobody. */
export function useLinkSecret(): string {
  const [secret] = useState(() => location.hash.slice(1));
  return secret;
}

/** A password to be chosen. */
export function NewPassword({
  value,
  onChange,
  label = "Password",
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly label?: string;
}) {
  return (
    <Field
      label={label}
      hint="10 to 200 characters. Several words are better than a few symbols."
      type="password"
      autoComplete="new-password"
      minLength={10}
      maxLength={200}
      required
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}
