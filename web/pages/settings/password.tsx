import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { changePassword, sessionsQuery } from "../../api/members.ts";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { Form } from "../../parts/form.tsx";
import { Refusal } from "../../parts/refusal.tsx";
import { tell } from "../../parts/toasts.tsx";
import { PasswordField } from "../credentials.tsx";
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
  return (
    <Card title="Password">
      <Form onSubmit={mutate}>
        <PasswordField label="Current password" value={current} onChange={setCurrent} />
        <NewPassword label="New password" value={next} onChange={setNext} />
        <Refusal error={error} />
        <Button type="submit" isBusy={isPending} className="self-start">
          Change password
        </Button>
      </Form>
    </Card>
  );
}
