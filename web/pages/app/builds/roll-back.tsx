import { useMutation, useQueryClient } from "@tanstack/react-query";
import { appQuery, configurationQuery, rollBack } from "../../../api/apps.ts";
import { buildsQuery } from "../../../api/builds.ts";
import type { Build } from "../../../api/builds.ts";
import { Confirm } from "../../../parts/dialog.tsx";
import { tell, tellError } from "../../../parts/toasts.tsx";

/** Asks first, then has an earlier version serve. */
export function RollBack({
  projectId,
  appName,
  target,
  onClose,
}: {
  readonly projectId: string;
  readonly appName: string;
  readonly target: Build | null;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: (build: Build) => rollBack(projectId, appName, build.id),
    onSuccess: async (_, { version }) => {
      await Promise.all(
        [buildsQuery, appQuery, configurationQuery].map((query) =>
          queries.invalidateQueries({ queryKey: query(projectId, appName).queryKey }),
        ),
      );
      tell(`Version ${version} is live.`);
    },
    onError: tellError,
    onSettled: onClose,
  });
  return (
    <Confirm
      title={`Roll back to version ${target?.version ?? ""}?`}
      isOpen={target !== null}
      onClose={onClose}
      onConfirm={() => target && mutate(target)}
      action={`Roll back to ${target?.version ?? ""}`}
      isBusy={isPending}
    >
      The version is started first, and gets calls once it is ready, so that no call fails. Runs in progress
      finish where they are. You can go back to the current version in the same way.
    </Confirm>
  );
}
