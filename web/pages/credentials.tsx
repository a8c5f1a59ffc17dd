import type { ReactNode } from "react";
import { Field } from "../parts/field.tsx";

type Props = {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint?: ReactNode;
};

/** The address somebody signs in with. */
export function EmailField({
  value,
  onChange,
  hint,
  isFirst = true,
}: Props & {
  /** Where typing begins. */
  readonly isFirst?: boolean;
}) {
  return (
    <Field
      label="E-mail"
      hint={hint}
      type="email"
      autoComplete="username"
      required
      autoFocus={isFirst}
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}

/** The password somebody has; one that is chosen has a field of its own. */
export function PasswordField({
  value,
  onChange,
  hint,
  label = "Password",
}: Props & { readonly label?: string }) {
  return (
    <Field
      label={label}
      hint={hint}
      type="password"
      autoComplete="current-password"
      required
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}
