import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { session } from "../api/session.ts";
import { EmailField } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";
import { NewPassword, useLinkSecret } from "./new-password.tsx";
import { Notice } from "./notice.tsx";

/** Makes the first person, with the link that the service printed at its first start. */
export function SetUp() {
  const link = useLinkSecret();
  const navigate = useNavigate();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  if (link === "") {
    return (
      <Notice title="This link is incomplete">
        Copy the whole set-up link that the service printed when it first started, with everything after the
        #.
      </Notice>
    );
  }
  return (
    <Entrance
      title="Set up Millrace"
      intro="You are the first to sign in here. You become the owner of every project, and this link stops working."
      action="Create the owner"
      onSubmit={async () => {
        await session.setUp(link, email, password);
        await navigate({ to: "/", replace: true });
      }}
    >
      <EmailField hint="You sign in with it." value={email} onChange={setEmail} />
      <NewPassword value={password} onChange={setPassword} />
    </Entrance>
  );
}
