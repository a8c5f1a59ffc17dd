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
      <Notice title="Look into your mail">
        If an account has proven {email} as its address, a link to choose a new password is on its way there.
        It works for an hour. If none comes, whoever runs this installation can make one for you.
      </Notice>
    );
  }
  return (
    <Entrance
      title="Forgot your password?"
      intro="A link to choose a new one is mailed to the address that you have proven."
      action="Mail me a link"
      onSubmit={async () => {
        await session.forgot(email);
        setSent(true);
      }}
    >
      <EmailField value={email} onChange={setEmail} />
    </Entrance>
  );
}
