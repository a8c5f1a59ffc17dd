import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { filesQuery } from "../api/files.ts";
import type { FileEntry } from "../api/files.ts";
import { useIsOwner } from "../api/members.ts";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { Confirm } from "../parts/dialog.tsx";
import { Empty } from "../parts/empty.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { DropArea } from "./files/drop-area.tsx";
import { FileTable } from "./files/file-table.tsx";
import { FolderPath } from "./files/folder-path.tsx";
import { NewFolder } from "./files/new-folder.tsx";
import { RemoveFile } from "./files/remove-file.tsx";
import { UploadList } from "./files/upload-list.tsx";
import { addUploads } from "./files/uploads.ts";

/** The persistent storage of the project, folder by folder. */
export function Files() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const search = useSearch({ from: "/gate/projects/$projectId/files" });
  const dir = folderOf(search.dir ?? "");
  const navigate = useNavigate({ from: "/projects/$projectId/files" });
  const isOwner = useIsOwner(projectId) ?? false;
  const { data: entries, error, refetch } = useQuery(filesQuery(projectId, dir));
  const picker = useRef<HTMLInputElement>(null);
  const [removing, setRemoving] = useState<FileEntry | null>(null);
  const [isNaming, setNaming] = useState(false);
  const [replacing, setReplacing] = useState<readonly File[] | null>(null);
  const known = new Set(entries?.map(({ name }) => name));
  const taken = replacing?.filter(({ name }) => known.has(name)) ?? [];
  const take = (files: readonly File[]): void => {
    if (files.some(({ name }) => known.has(name))) setReplacing(files);
    else addUploads(projectId, dir, files);
  };
  return (
    <Page
      title="Files"
      subtitle={
        <>
          The persistent storage that every app of the project has at <code>$PERSISTENT_STORAGE</code>.
        </>
      }
      actions={
        isOwner && (
          <>
            <Button onClick={() => setNaming(true)}>New folder</Button>
            <Button look="primary" onClick={() => picker.current?.click()}>
              Upload files
            </Button>
            <input
              ref={picker}
              type="file"
              multiple
              hidden
              aria-label="Files to upload"
              onChange={({ target }) => {
                take([...(target.files ?? [])]);
                target.value = "";
              }}
            />
          </>
        )
      }
    >
      <UploadList projectId={projectId} />
      <DropArea isOpen={isOwner} onFiles={take}>
        <Card title={<FolderPath projectId={projectId} dir={dir} />} isFlush>
          {error ? (
            <Problem error={error} onRetry={() => void refetch()} />
          ) : entries?.length === 0 ? (
            <NoFiles isRoot={dir === "/"} isOwner={isOwner} />
          ) : (
            <FileTable
              key={dir}
              projectId={projectId}
              dir={dir}
              entries={entries}
              canRemove={isOwner}
              onRemove={setRemoving}
            />
          )}
        </Card>
      </DropArea>
      <RemoveFile projectId={projectId} dir={dir} target={removing} onClose={() => setRemoving(null)} />
      <NewFolder
        isOpen={isNaming}
        onClose={() => setNaming(false)}
        onName={(name) => {
          setNaming(false);
          void navigate({ search: { dir: `${dir}${name}/` } });
        }}
      />
      <Confirm
        title={taken.length === 1 ? "Replace this file?" : `Replace ${taken.length} files?`}
        isOpen={replacing !== null}
        onClose={() => setReplacing(null)}
        onConfirm={() => {
          if (replacing) addUploads(projectId, dir, replacing);
          setReplacing(null);
        }}
        action="Replace"
      >
        <p className="mb-2 max-h-40 overflow-y-auto font-medium break-all text-ink">
          {taken.map(({ name }) => name).join(", ")}
        </p>
        It already exists in this folder. Apps see the old file until the upload is complete.
      </Confirm>
    </Page>
  );
}

function NoFiles({ isRoot, isOwner }: { readonly isRoot: boolean; readonly isOwner: boolean }) {
  return (
    <Empty title={isRoot ? "No files yet" : "Nothing in this folder"}>
      {isOwner ? "Drop files here, or press Upload files." : "An owner of the project can upload files."}{" "}
      {isRoot ? (
        <>
          Or from a terminal: <code>millrace files cp model.bin models/model.bin</code>
        </>
      ) : (
        "A folder exists once it contains a file."
      )}
    </Empty>
  );
}

/** With a slash at both ends. */
function folderOf(dir: string): string {
  const names = dir.split("/").filter(Boolean);
  return names.length === 0 ? "/" : `/${names.join("/")}/`;
}
