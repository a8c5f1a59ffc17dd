import { useMutation, useQueryClient } from "@tanstack/react-query";
import { changeSecret, secretsQuery } from "../../api/secrets.ts";
import type { SecretHolder } from "../../api/secrets.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

/** Asks first: nothing else holds the value. */
export function RemoveSecret({
  holder,
  name,
  isShared,
  onClose,
}: {
  readonly holder: SecretHolder;
  readonly name: string | null;
  /** An app's, and the project has one of the same name. */
  readonly isShared: boolean;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: (chosen: string) => changeSecret(holder, chosen, null),
    onSuccess: (secrets, chosen) => {
      queries.setQueryData(secretsQuery(holder).queryKey, secrets);
      tell(`${chosen} is removed.`);
    },
    onError: tellError,
    onSettled: onClose,
  });
  return (
    <Confirm
      title={`Remove ${name ?? ""}?`}
      isOpen={name !== null}
      onClose={onClose}
      onConfirm={() => name !== null && mutate(name)}
      action="Remove secret"
      isBusy={isPending}
    >
      {isShared
        ? "New replicas get the project’s secret of this name again."
        : "New replicas start without it."}{" "}
      Its value cannot be recovered.
    </Confirm>
  );
}
