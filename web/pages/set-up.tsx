import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { session } from "../api/session.ts";
import { Empty } from "../parts/empty.tsx";
import { EmailField } from "./credentials.tsx";
import { Entrance } from "./entrance.tsx";
import { NewPassword, useLinkSecret } from "./new-password.tsx";

/** Makes the first person, with the link that the service printed at its first start. */
export function SetUp() {
  const link = useLinkSecret();
  const navigate = useNavigate();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  if (link === "") {
    return (
      <main>
        <Empty title="This is not the whole link">
          Copy the set-up link from what the service printed at its first start, with everything after the #.
        </Empty>
      </main>
    );
  }
  return (
    <Entrance
      title="Set up Millrace"
      intro="You are the first. This makes you the owner of every project, and the link is void."
      action="Create the owner"
      onSubmit={async () => {
        await session.setUp(link, email, password);
        await navigate({ to: "/", replace: true });
      }}
    >
      <EmailField hint="The name you sign in with." value={email} onChange={setEmail} />
      <NewPassword value={password} onChange={setPassword} />
    </Entrance>
  );
}
