import { Link, useRouter, useSearch } from "@tanstack/react-router";
import { installation } from "../api/installation.ts";
import { queryClient } from "../api/query-client.ts";
import { session } from "../api/session.ts";
import { SignInForm } from "./sign-in-form.tsx";

/** E-mail and password. */
export function SignIn() {
  const { to = "/" } = useSearch({ from: "/sign-in" });
  const router = useRouter();
  return (
    <SignInForm
      title="Sign in"
      intro="To the dashboard of this installation."
      hint={<ForgottenHint />}
      onSubmit={async (email, password) => {
        await session.signIn(email, password);
        // What the last person saw is not for the next one.
        queryClient.clear();
        router.history.replace(to);
      }}
    />
  );
}

function ForgottenHint() {
  if (!installation.sendsMail)
    return "Forgot it? Ask whoever runs this installation for a link: millrace reset-password";
  return (
    <Link to="/forgotten" className="underline underline-offset-2">
      Forgot your password?
    </Link>
  );
}
