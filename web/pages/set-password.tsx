import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { session } from "../api/session.ts";
import { Entrance } from "./entrance.tsx";
import { NewPassword, useLinkSecret } from "./new-password.tsx";

/** Where a link for a new password leads: its holder chooses one and is signed in. */
export function SetPassword() {
  const link = useLinkSecret();
  const navigate = useNavigate();
  const [password, setPassword] = useState("");
  return (
    <Entrance
      title="Choose a password"
      intro="The link works once and signs you in."
      action="Set password"
      onSubmit={async () => {
        await session.setPassword(link, password);
        await navigate({ to: "/", replace: true });
      }}
    >
      <NewPassword value={password} onChange={setPassword} />
    </Entrance>
  );
}
