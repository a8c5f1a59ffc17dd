import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { offerFile } from "../../api/files.ts";
import type { FileEntry } from "../../api/files.ts";
import { Icon } from "../../app/icons.tsx";
import { Button } from "../../parts/button.tsx";
import { bytes, count } from "../../parts/format.ts";
import { openDownload } from "../../parts/save-text.ts";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { tellError } from "../../parts/toasts.tsx";

const COLUMNS = [
  { title: "Name" },
  { title: "Size", align: "right" },
  { title: "Changed", align: "right", isMinor: true },
  { title: "Actions", align: "right" },
] as const;
/** Of a large folder so many are shown at a time. */
const STEP = 500;

type Props = {
  readonly projectId: string;
  /** With a `/` at its end. */
  readonly dir: string;
  readonly entries: readonly FileEntry[] | undefined;
  readonly canRemove: boolean;
  readonly onRemove: (entry: FileEntry) => void;
};

/** What a folder holds. */
export function FileTable({ entries, ...rest }: Props) {
  const [shown, setShown] = useState(STEP);
  return (
    <>
      <Table columns={COLUMNS} label="Files">
        {entries?.slice(0, shown).map((entry) => <FileRow key={entry.name} entry={entry} {...rest} />) ?? (
          <SkeletonRows columns={COLUMNS.length} />
        )}
      </Table>
      {entries && entries.length > shown && (
        <div className="flex justify-center border-t border-line p-3">
          <Button size="small" onClick={() => setShown((last) => last + STEP)}>
            Show more of {count(entries.length)}
          </Button>
        </div>
      )}
    </>
  );
}

function FileRow({
  projectId,
  dir,
  entry,
  canRemove,
  onRemove,
}: Omit<Props, "entries"> & { readonly entry: FileEntry }) {
  const { name, is_folder: isFolder, size_bytes: sizeBytes } = entry;
  const download = (): void => {
    offerFile(projectId, dir + name).then((url) => openDownload(url, name), tellError);
  };
  return (
    <Row>
      <Cell className="max-w-36 truncate sm:max-w-96 xl:max-w-[50rem]">
        {isFolder ? (
          <Link
            to="/projects/$projectId/files"
            params={{ projectId }}
            search={{ dir: `${dir}${name}/` }}
            title={name}
            className="font-medium underline-offset-2 hover:underline"
          >
            <Icon name="files" className="mr-2 inline size-4 text-accent" />
            {name}
          </Link>
        ) : (
          <span title={name}>
            <Icon name="audit" className="mr-2 inline size-4 text-ink-faint" />
            {name}
          </span>
        )}
      </Cell>
      <Cell align="right">
        {isFolder ? "–" : <span title={`${count(sizeBytes)} bytes`}>{bytes(sizeBytes)}</span>}
      </Cell>
      <Cell align="right" isMinor>
        <Time at={entry.last_modified} />
      </Cell>
      <Cell align="right">
        <span className="inline-flex gap-1.5">
          {!isFolder && (
            <Button size="small" aria-label={`Download ${name}`} onClick={download}>
              Download
            </Button>
          )}
          {canRemove && (
            <Button size="small" look="quiet" aria-label={`Delete ${name}`} onClick={() => onRemove(entry)}>
              Delete
            </Button>
          )}
        </span>
      </Cell>
    </Row>
  );
}
