import { useMutation, useQueryClient } from "@tanstack/react-query";
import { deleteSchedule, schedulesQuery } from "../../../api/schedules.ts";
import { Confirm } from "../../../parts/dialog.tsx";
import { tell, tellError } from "../../../parts/toasts.tsx";

/** Asks first: what it calls, and when, is on record nowhere else. */
export function DeleteSchedule({
  projectId,
  appName,
  name,
  onClose,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly name: string | null;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: (chosen: string) => deleteSchedule({ projectId, appName, name: chosen }),
    onSuccess: async (_, chosen) => {
      await queries.invalidateQueries({ queryKey: schedulesQuery(projectId, appName).queryKey });
      tell(`${chosen} is deleted.`);
    },
    onError: tellError,
    onSettled: onClose,
  });
  return (
    <Confirm
      title={`Delete ${name ?? ""}?`}
      isOpen={name !== null}
      onClose={onClose}
      onConfirm={() => name !== null && mutate(name)}
      action="Delete schedule"
      isBusy={isPending}
    >
      It fires no more. Its runs stay, and those in progress finish.
    </Confirm>
  );
}
