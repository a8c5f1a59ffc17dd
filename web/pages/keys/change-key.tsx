import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { MAX_WEIGHT } from "../../../src/model/queue-limits.ts";
import { deleteKey, keysQuery, rotateKey, weighKey } from "../../api/keys.ts";
import type { Key, KeyWithToken } from "../../api/keys.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Choice, Field } from "../../parts/field.tsx";
import { Form } from "../../parts/form.tsx";
import { FormEnd } from "../../parts/form-end.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

const OVERLAPS = [
  { seconds: 0, title: "The old token stops at once" },
  { seconds: 3_600, title: "Both work for an hour" },
  { seconds: 86_400, title: "Both work for a day" },
  { seconds: 604_800, title: "Both work for a week" },
] as const;

type Props = { readonly projectId: string; readonly target: Key | null; readonly onClose: () => void };

/** Asks how long the old token goes on, and makes the new one. */
export function RotateKey({
  projectId,
  target,
  onClose,
  onMade,
}: Props & { readonly onMade: (key: KeyWithToken) => void }) {
  const queries = useQueryClient();
  const [overlap, setOverlap] = useState(86_400);
  const { mutate, isPending } = useMutation({
    mutationFn: (id: string) => rotateKey(projectId, id, overlap),
    onSuccess: async (key) => {
      await queries.invalidateQueries({ queryKey: keysQuery(projectId).queryKey });
      onClose();
      onMade(key);
    },
    onError: tellError,
  });
  return (
    <Dialog title={`Rotate ${target?.name ?? ""}`} isOpen={target !== null} onClose={onClose}>
      <p className="mb-4 text-ink-soft">A new token for the same account. Give programs time to switch.</p>
      <Choice
        label="The old token"
        value={overlap}
        onChange={({ target: choice }) => setOverlap(Number(choice.value))}
      >
        {OVERLAPS.map(({ seconds, title }) => (
          <option key={seconds} value={seconds}>
            {title}
          </option>
        ))}
      </Choice>
      <div className="mt-5 flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" isBusy={isPending} onClick={() => target && mutate(target.id)}>
          Rotate
        </Button>
      </div>
    </Dialog>
  );
}

/** Asks for another weight. */
export function WeighKey({ projectId, target, onClose }: Props) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState<string | null>(null);
  const weight = typed ?? String(target?.weight ?? 1);
  const { mutate, isPending, error, reset } = useMutation({
    mutationFn: () => weighKey(projectId, target?.id ?? "", Number(weight)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: keysQuery(projectId).queryKey });
      close();
    },
  });
  function close(): void {
    setTyped(null);
    reset();
    onClose();
  }
  return (
    <Dialog title={`Weight of ${target?.name ?? ""}`} isOpen={target !== null} onClose={close}>
      <Form onSubmit={mutate}>
        <Field
          label="Weight"
          hint="While calls of several keys wait for an app, a key of weight 5 has five turns for one of a key of weight 1."
          type="number"
          required
          min={1}
          max={MAX_WEIGHT}
          value={weight}
          onChange={({ target: field }) => setTyped(field.value)}
        />
        <FormEnd error={error} action="Change weight" isBusy={isPending} onCancel={close} />
      </Form>
    </Dialog>
  );
}

/** Asks first: programs that use it fail within seconds. */
export function DeleteKey({ projectId, target, onClose }: Props) {
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: (key: Key) => deleteKey(projectId, key.id),
    onSuccess: async (_, { name }) => {
      await queries.invalidateQueries({ queryKey: keysQuery(projectId).queryKey });
      onClose();
      tell(`Deleted ${name}.`);
    },
    onError: tellError,
  });
  return (
    <Confirm
      title={`Delete ${target?.name ?? ""}?`}
      isOpen={target !== null}
      onClose={onClose}
      onConfirm={() => target && mutate(target)}
      action="Delete key"
      isBusy={isPending}
    >
      Programs that use it get 401 within 5 seconds. This cannot be undone.
    </Confirm>
  );
}
