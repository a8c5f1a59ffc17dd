import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { installation } from "../../api/installation.ts";
import { askForProof, changeEmail, meQuery } from "../../api/me.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { Refusal } from "../../parts/refusal.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";
import { PasswordField } from "../credentials.tsx";

/** The address the person signs in with: prove it, change it. */
export function Address() {
  const { data: me } = useQuery(meQuery);
  const proof = useMutation({
    mutationFn: askForProof,
    onSuccess: () => tell(`A link is on its way to ${me?.email ?? "you"}.`),
    onError: tellError,
  });
  return (
    <Card title="E-mail">
      <p className="flex flex-wrap items-center gap-2">
        <span className="font-medium break-all">{me?.email ?? "…"}</span>
        {me && installation.sendsMail && (
          <Badge tone={me.isProven ? "good" : "warn"}>{me.isProven ? "verified" : "not verified"}</Badge>
        )}
      </p>
      {me && !me.isProven && (
        <div className="mt-2 text-ink-soft">
          {installation.sendsMail ? (
            <>
              <p>Verify it, and you can reset a forgotten password by mail.</p>
              <Button className="mt-2" isBusy={proof.isPending} onClick={() => proof.mutate()}>
                Mail me a link
              </Button>
            </>
          ) : (
            <p>You sign in with it. This installation does not send mail.</p>
          )}
        </div>
      )}
      <ChangeAddress />
    </Card>
  );
}

function ChangeAddress() {
  const queries = useQueryClient();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => changeEmail(email.trim(), password),
    onSuccess: async () => {
      setEmail("");
      setPassword("");
      tell("You sign in with the new address from now on.");
      await queries.invalidateQueries({ queryKey: meQuery.queryKey });
    },
  });
  return (
    <Form onSubmit={mutate} className="mt-4 border-t border-line pt-4">
      <Field
        label="New address"
        type="email"
        autoComplete="off"
        required
        value={email}
        onChange={({ target }) => setEmail(target.value)}
      />
      <PasswordField label="Your password" value={password} onChange={setPassword} />
      <Refusal error={error} />
      <Button type="submit" isBusy={isPending} className="self-start">
        Change address
      </Button>
    </Form>
  );
}
