import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { SECRET_NAME, changeSecret, secretsQuery } from "../../api/secrets.ts";
import type { SecretHolder, SecretMap } from "../../api/secrets.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, TextField } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";
import { tell } from "../../parts/toasts.tsx";

const MAX_VALUE_CHARS = 65_536;

/** The form of a new secret, or of another value for one that is there. */
export function EditSecret({
  holder,
  name: known,
  own,
  shared,
  onClose,
}: {
  readonly holder: SecretHolder;
  /** Null for a new one. */
  readonly name: string | null;
  readonly own: SecretMap;
  /** Those of the project, which an app's own take the place of. */
  readonly shared: SecretMap;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState("");
  const [value, setValue] = useState(known === null ? "" : (own[known] ?? ""));
  const name = known ?? typed;
  const problem = known === null && typed !== "" ? problemOf(typed, own) : undefined;
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => changeSecret(holder, name, value),
    onSuccess: (secrets) => {
      queries.setQueryData(secretsQuery(holder).queryKey, secrets);
      onClose();
      tell(`${name} is ${known === null ? "added" : "changed"}. Replicas get it when they start.`);
    },
  });
  const submit = (): void => {
    if (!problem) mutate();
  };
  return (
    <Dialog title={known === null ? "Add a secret" : `Change ${known}`} isOpen onClose={onClose}>
      <Form onSubmit={submit}>
        {known === null && (
          <Field
            label="Name"
            hint="Letters, digits, . - and _, as in DATABASE_URL"
            error={problem}
            required
            autoFocus
            autoComplete="off"
            spellCheck={false}
            maxLength={253}
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
          />
        )}
        <TextField
          label="Value"
          rows={4}
          autoFocus={known !== null}
          autoComplete="off"
          spellCheck={false}
          maxLength={MAX_VALUE_CHARS}
          value={value}
          onChange={({ target }) => setValue(target.value)}
        />
        {Object.hasOwn(shared, name) && (
          <p role="status" className="rounded-md bg-warn-soft px-3 py-2 text-warn">
            The project also has a secret with this name. This app uses the one set here.
          </p>
        )}
        <FormEnd
          error={error}
          action={known === null ? "Add secret" : "Change secret"}
          isBusy={isPending}
          onCancel={onClose}
        />
      </Form>
    </Dialog>
  );
}

function problemOf(name: string, own: SecretMap): string | undefined {
  if (!SECRET_NAME.test(name)) return "A name can contain only letters, digits, . - and _";
  return Object.hasOwn(own, name) ? "A secret with this name exists. Change it in the list." : undefined;
}
