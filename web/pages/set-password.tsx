import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { session } from "../api/session.ts";
import { Entrance } from "./entrance.tsx";
import { NewPassword, useLinkSecret } from "./new-password.tsx";

/** Where an invitation leads: its holder chooses a password and is in. */
export function SetPassword() {
  const link = useLinkSecret();
  const navigate = useNavigate();
  const [password, setPassword] = useState("");
  return (
    <Entrance
      title="Choose a password"
      intro="You were invited. The link works once."
      action="Set the password"
      onSubmit={async () => {
        await session.setPassword(link, password);
        await navigate({ to: "/", replace: true });
      }}
    >
      <NewPassword value={password} onChange={setPassword} />
    </Entrance>
  );
}
