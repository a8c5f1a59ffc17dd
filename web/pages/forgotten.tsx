import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { session } from "../api/session.ts";
import { EmailField } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";
import { Notice } from "./notice.tsx";

/** Where somebody who forgot their password asks for a link. */
export function Forgotten() {
  const [email, setEmail] = useState("");
  const [isSent, setSent] = useState(false);
  if (isSent) {
    return (
      <Notice title="Check your mail">
        If {email} is a verified address, a link to reset your password is on its way there. It expires after
        an hour. If nothing comes, ask whoever runs this installation for a link.
        <p className="mt-3">
          <BackToSignIn />
        </p>
      </Notice>
    );
  }
  return (
    <Entrance
      title="Forgot your password?"
      intro="Enter your address. If it is verified, you get a mail with a link to reset your password."
      action="Mail me a link"
      below={
        <p className="text-center">
          <BackToSignIn />
        </p>
      }
      onSubmit={async () => {
        await session.forgot(email);
        setSent(true);
      }}
    >
      <EmailField value={email} onChange={setEmail} />
    </Entrance>
  );
}

function BackToSignIn() {
  return (
    <Link to="/sign-in" className="underline underline-offset-2">
      Back to sign in
    </Link>
  );
}
