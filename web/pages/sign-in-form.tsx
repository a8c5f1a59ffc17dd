import { useState } from "react";
import type { ReactNode } from "react";
import { EmailField, PasswordField } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";

/** Asks for e-mail and password, on whichever page before the dashboard somebody signs in. */
export function SignInForm({
  title,
  intro,
  hint,
  below,
  onSubmit,
}: {
  readonly title: string;
  readonly intro: string;
  /** What helps who forgot the password. */
  readonly hint?: ReactNode;
  readonly below?: ReactNode;
  readonly onSubmit: (email: string, password: string) => Promise<void>;
}) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  return (
    <Entrance
      title={title}
      intro={intro}
      action="Sign in"
      onSubmit={() => onSubmit(email, password)}
      below={below}
    >
      <EmailField value={email} onChange={setEmail} />
      <PasswordField hint={hint} value={password} onChange={setPassword} />
    </Entrance>
  );
}
