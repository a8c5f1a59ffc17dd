import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { joinProject, offerQuery } from "../api/invitations.ts";
import type { Offer } from "../api/invitations.ts";
import { messageOf } from "../api/answer.ts";
import { meQuery } from "../api/me.ts";
import { queryClient } from "../api/query-client.ts";
import { session } from "../api/session.ts";
import { useSession } from "../api/use-session.ts";
import { Button } from "../parts/button.tsx";
import { Problem } from "../parts/problem.tsx";
import { tellError } from "../parts/toasts.tsx";
import { EmailField } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";
import { Notice } from "./notice.tsx";
import { NewPassword, useLinkSecret } from "./new-password.tsx";
import { SignInForm } from "./sign-in-form.tsx";

/** Where an invitation's link leads: join with the account one has, or make one. */
export function InvitationPage() {
  const link = useLinkSecret();
  const { data: offer, error } = useQuery({ ...offerQuery(link), enabled: link !== "" });
  const { state, error: unreachable, retry } = useSession();
  const [hasAccount, setHasAccount] = useState(false);
  if (link === "" || error) {
    return (
      <Notice title="This invitation does not work">
        {link === ""
          ? "The link is incomplete. Copy it with everything after the #."
          : `${messageOf(error)} Ask whoever invited you for a new one.`}
      </Notice>
    );
  }
  if (unreachable) return <Problem error={unreachable} onRetry={retry} />;
  if (!offer || state === "unknown") return null;
  if (state === "in") return <Join link={link} offer={offer} onOther={() => setHasAccount(true)} />;
  return hasAccount ? (
    <SignInFirst offer={offer} onBack={() => setHasAccount(false)} />
  ) : (
    <SignUp link={link} offer={offer} onHasAccount={() => setHasAccount(true)} />
  );
}

function titleOf({ projectName }: Offer): string {
  return `Join ${projectName}`;
}

function roleOf({ role }: Offer): string {
  return role === "owner" ? "an owner" : "a member";
}

/** Who is signed in joins with that account, or says that it is not the one. */
function Join({
  link,
  offer,
  onOther,
}: {
  readonly link: string;
  readonly offer: Offer;
  readonly onOther: () => void;
}) {
  const enter = useEnter();
  const { data: me } = useQuery(meQuery);
  return (
    <Entrance
      title={titleOf(offer)}
      intro={
        <>
          You are invited as {roleOf(offer)}. You join with the account you are signed in with:{" "}
          <b className="mt-1 block break-words text-ink">{me?.email ?? "…"}</b>
        </>
      }
      action={`Join as ${offer.role}`}
      onSubmit={async () => enter((await joinProject(link)).projectId)}
      below={
        <Button
          look="quiet"
          onClick={() => {
            onOther();
            session.signOut().catch(tellError);
          }}
        >
          Use another account
        </Button>
      }
    />
  );
}

/** Who has no account makes one. */
function SignUp({
  link,
  offer,
  onHasAccount,
}: {
  readonly link: string;
  readonly offer: Offer;
  readonly onHasAccount: () => void;
}) {
  const enter = useEnter();
  const [email, setEmail] = useState(offer.email);
  const [password, setPassword] = useState("");
  return (
    <Entrance
      title={titleOf(offer)}
      intro={`You are invited as ${roleOf(offer)}. Create an account to join.`}
      action="Sign up and join"
      onSubmit={async () => enter(await session.signUp(link, email, password))}
      below={
        <Button look="quiet" onClick={onHasAccount}>
          I already have an account
        </Button>
      }
    >
      <EmailField hint="You sign in with it." isFirst={false} value={email} onChange={setEmail} />
      <NewPassword value={password} onChange={setPassword} />
    </Entrance>
  );
}

/** Who has an account signs in with it, and joins then. */
function SignInFirst({ offer, onBack }: { readonly offer: Offer; readonly onBack: () => void }) {
  return (
    <SignInForm
      title={titleOf(offer)}
      intro={`You are invited as ${roleOf(offer)}. Sign in to join with your account.`}
      onSubmit={async (email, password) => {
        // Of whoever was signed in before.
        queryClient.removeQueries({ queryKey: meQuery.queryKey });
        await session.signIn(email, password);
      }}
      below={
        <Button look="quiet" onClick={onBack}>
          I have no account yet
        </Button>
      }
    />
  );
}

/** Goes to the project; what was known of the person before has changed. */
function useEnter(): (projectId: string) => Promise<void> {
  const navigate = useNavigate();
  return async (projectId) => {
    queryClient.clear();
    await navigate({ to: "/projects/$projectId", params: { projectId }, replace: true });
  };
}
