import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { meQuery, proveEmail } from "../api/me.ts";
import { queryClient } from "../api/query-client.ts";
import { session } from "../api/session.ts";
import { useSession } from "../api/use-session.ts";
import { Problem } from "../parts/problem.tsx";
import { Entrance } from "./entrance.tsx";
import { Notice } from "./notice.tsx";
import { useLinkSecret } from "./new-password.tsx";
import { SignInForm } from "./sign-in-form.tsx";

/** Where the link in a mail leads that shows whose an address is. */
export function Prove() {
  const link = useLinkSecret();
  const { state, error, retry } = useSession();
  const [proven, setProven] = useState<string | null>(null);
  if (error) return <Problem error={error} onRetry={retry} />;
  if (state === "unknown") return null;
  if (proven !== null) {
    return (
      <Notice title="Your address is verified">
        If you forget your password, you can have a link for a new one mailed to {proven}.
        <p className="mt-3">
          <Link to="/" className="underline underline-offset-2">
            Go to the dashboard
          </Link>
        </p>
      </Notice>
    );
  }
  if (state === "out") {
    return (
      <SignInForm
        title="Verify your address"
        intro="Sign in with the account it belongs to."
        onSubmit={async (email, password) => {
          await session.signIn(email, password);
          queryClient.clear();
        }}
      />
    );
  }
  return (
    <Entrance
      title="Verify your address"
      intro="Continue only if you asked for this mail yourself."
      action="This address is mine"
      onSubmit={async () => {
        const { email } = await proveEmail(link);
        await queryClient.invalidateQueries({ queryKey: meQuery.queryKey });
        setProven(email);
      }}
    />
  );
}
