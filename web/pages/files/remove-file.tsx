import { useMutation, useQueryClient } from "@tanstack/react-query";
import { filesQuery, removeFile } from "../../api/files.ts";
import type { FileEntry } from "../../api/files.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { tell, tellError } from "../../parts/toasts.tsx";

/** Asks first: apps may read it. */
export function RemoveFile({
  projectId,
  dir,
  target,
  onClose,
}: {
  readonly projectId: string;
  readonly dir: string;
  readonly target: FileEntry | null;
  readonly onClose: () => void;
}) {
  const queries = useQueryClient();
  const { mutate, isPending } = useMutation({
    mutationFn: ({ name, is_folder: isFolder }: FileEntry) =>
      removeFile(projectId, `${dir}${name}${isFolder ? "/" : ""}`),
    onSuccess: async (_, { name }) => {
      await queries.invalidateQueries({ queryKey: filesQuery(projectId, dir).queryKey });
      onClose();
      tell(`Deleted ${name}.`);
    },
    onError: tellError,
  });
  return (
    <Confirm
      title={target?.is_folder ? "Delete this folder?" : "Delete this file?"}
      isOpen={target !== null}
      onClose={onClose}
      onConfirm={() => target && mutate(target)}
      action={target?.is_folder ? "Delete folder" : "Delete file"}
      isBusy={isPending}
    >
      <p className="mb-2 font-medium break-all text-ink">{target?.name}</p>
      {target?.is_folder ? "The folder and everything in it are removed" : "It is removed"} at once, for every
      app of the project. This cannot be undone.
    </Confirm>
  );
}
