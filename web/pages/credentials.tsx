import { Field } from "../parts/field.tsx";

/** What somebody signs in with. */
export type Credentials = { readonly email: string; readonly password: string };

/** The fields of a sign-in. */
export function CredentialFields({
  value,
  hint,
  onChange,
}: {
  readonly value: Credentials;
  /** What helps who forgot. */
  readonly hint?: React.ReactNode;
  readonly onChange: (value: Credentials) => void;
}) {
  return (
    <>
      <Field
        label="E-mail"
        type="email"
        autoComplete="username"
        required
        autoFocus
        value={value.email}
        onChange={({ target }) => onChange({ ...value, email: target.value })}
      />
      <Field
        label="Password"
        hint={hint}
        type="password"
        autoComplete="current-password"
        required
        value={value.password}
        onChange={({ target }) => onChange({ ...value, password: target.value })}
      />
    </>
  );
}
