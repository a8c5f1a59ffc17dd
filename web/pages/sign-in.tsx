import { useRouter, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { queryClient } from "../api/query-client.ts";
import { session } from "../api/session.ts";
import { Field } from "../parts/field.tsx";
import { Entrance } from "./entrance.tsx";

/** E-mail and password. */
export function SignIn() {
  const { to = "/" } = useSearch({ from: "/sign-in" });
  const router = useRouter();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  return (
    <Entrance
      title="Sign in"
      intro="To the dashboard of this installation."
      action="Sign in"
      onSubmit={async () => {
        await session.signIn(email, password);
        // What the last person saw is not for the next one.
        queryClient.clear();
        router.history.replace(to);
      }}
    >
      <Field
        label="E-mail"
        type="email"
        autoComplete="username"
        required
        autoFocus
        value={email}
        onChange={({ target }) => setEmail(target.value)}
      />
      <Field
        label="Password"
        hint="Forgotten? Whoever runs this installation has a link for you: millrace reset-password"
        type="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={({ target }) => setPassword(target.value)}
      />
    </Entrance>
  );
}
