import { Link, useRouter, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { installation } from "../api/installation.ts";
import { queryClient } from "../api/query-client.ts";
import { session } from "../api/session.ts";
import { CredentialFields } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";

/** E-mail and password. */
export function SignIn() {
  const { to = "/" } = useSearch({ from: "/sign-in" });
  const router = useRouter();
  const [credentials, setCredentials] = useState({ email: "", password: "" });
  return (
    <Entrance
      title="Sign in"
      intro="To the dashboard of this installation."
      action="Sign in"
      onSubmit={async () => {
        await session.signIn(credentials.email, credentials.password);
        // What the last person saw is not for the next one.
        queryClient.clear();
        router.history.replace(to);
      }}
    >
      <CredentialFields value={credentials} hint={<ForgottenHint />} onChange={setCredentials} />
    </Entrance>
  );
}

function ForgottenHint() {
  if (!installation.sendsMail)
    return "Forgotten? Whoever runs this installation has a link for you: millrace reset-password";
  return (
    <Link to="/forgotten" className="underline underline-offset-2">
      Forgot your password?
    </Link>
  );
}
