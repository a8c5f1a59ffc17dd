import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { createKey, keysQuery } from "../../api/keys.ts";
import type { KeyWithToken, Role } from "../../api/keys.ts";
import { Button } from "../../parts/button.tsx";
import { classes } from "../../parts/classes.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";
import { LimitFields, NO_LIMITS, limitsOf } from "./call-limits.tsx";

const DAY_MS = 86_400_000;
const PRESETS = [7, 30, 90, 365] as const;
const ROLES: readonly { readonly role: Role; readonly may: string }[] = [
  { role: "call", may: "call: call the apps you name, read its own runs; for web pages" },
  { role: "run", may: "run: call apps, read runs" },
  { role: "deploy", may: "deploy: also deploy, read logs and secrets" },
  { role: "admin", may: "admin: everything in the project" },
];

const dateIn = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10);

/** The form of a new key: name, role, what limits it, and the day it ends. */
export function CreateKey({
  projectId,
  isOpen,
  onClose,
  onMade,
}: {
  readonly projectId: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onMade: (key: KeyWithToken) => void;
}) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("run");
  const [limits, setLimits] = useState(NO_LIMITS);
  const [day, setDay] = useState(() => dateIn(90));
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: () =>
      createKey(projectId, {
        name,
        role,
        expiresAt: day,
        description: null,
        ...(role === "call" && limitsOf(limits)),
      }),
    onSuccess: async (key) => {
      await queries.invalidateQueries({ queryKey: keysQuery(projectId).queryKey });
      close();
      onMade(key);
    },
  });
  function close(): void {
    setName("");
    setLimits(NO_LIMITS);
    reset();
    onClose();
  }
  return (
    <Dialog title="Create an API key" isOpen={isOpen} onClose={close}>
      <Form onSubmit={mutate}>
        <Field
          label="Name"
          hint="What will use it: checkout-production"
          required
          autoFocus
          maxLength={100}
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
        <Choice label="Role" value={role} onChange={({ target }) => setRole(target.value as Role)}>
          {ROLES.map((choice) => (
            <option key={choice.role} value={choice.role}>
              {choice.may}
            </option>
          ))}
        </Choice>
        {role === "call" && <LimitFields projectId={projectId} value={limits} onChange={setLimits} />}
        <div>
          <Field
            label="Expiry date"
            hint="Until the end of that day, UTC."
            type="date"
            required
            min={dateIn(1)}
            max={dateIn(3_650)}
            value={day}
            onChange={({ target }) => setDay(target.value)}
          />
          <div role="group" aria-label="Usual spans" className="mt-2 flex flex-wrap gap-1.5">
            {PRESETS.map((days) => (
              <Button
                key={days}
                size="small"
                aria-pressed={day === dateIn(days)}
                className={classes(day === dateIn(days) && "!border-accent !text-accent")}
                onClick={() => setDay(dateIn(days))}
              >
                {days === 365 ? "1 year" : `${days} days`}
              </Button>
            ))}
          </div>
        </div>
        <FormEnd error={error} action="Create key" isBusy={isPending} onCancel={close} />
      </Form>
    </Dialog>
  );
}
