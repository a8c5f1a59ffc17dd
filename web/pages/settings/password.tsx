import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { FormEvent } from "react";
import { messageOf } from "../../api/answer.ts";
import { changePassword, sessionsQuery } from "../../api/members.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Field } from "../../parts/field.tsx";
import { tell } from "../../parts/toasts.tsx";
import { NewPassword } from "../new-password.tsx";

/** The person's password; changing it signs them out everywhere else. */
export function Password() {
  const queries = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => changePassword(current, next),
    onSuccess: async () => {
      setCurrent("");
      setNext("");
      tell("The password is changed. Every other session has ended.");
      await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <Card title="Password">
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field
          label="Current password"
          type="password"
          autoComplete="current-password"
          required
          value={current}
          onChange={({ target }) => setCurrent(target.value)}
        />
        <NewPassword label="New password" value={next} onChange={setNext} />
        {error && (
          <p role="alert" className="text-bad">
            {messageOf(error)}
          </p>
        )}
        <Button type="submit" isBusy={isPending} className="self-start">
          Change password
        </Button>
      </form>
    </Card>
  );
}
