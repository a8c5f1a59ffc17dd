import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { bytes } from "../../parts/format.ts";
import { cancelUpload, clearUploads, isOver, useUploads } from "./uploads.ts";
import type { Upload } from "./uploads.ts";

/** What is on its way up, and what became of it. */
export function UploadList({ projectId }: { readonly projectId: string }) {
  const uploads = useUploads(projectId);
  if (uploads.length === 0) return null;
  return (
    <Card
      title="Uploads"
      isFlush
      actions={
        uploads.some(isOver) && (
          <Button size="small" onClick={clearUploads}>
            Clear
          </Button>
        )
      }
    >
      <ul className="max-h-72 overflow-y-auto">
        {uploads.toReversed().map((upload) => (
          <UploadEntry key={upload.id} upload={upload} />
        ))}
      </ul>
    </Card>
  );
}

function UploadEntry({ upload }: { readonly upload: Upload }) {
  const { id, name, sizeBytes, sentBytes, state, problem } = upload;
  const percent = sizeBytes === 0 ? 100 : Math.floor((sentBytes / sizeBytes) * 100);
  return (
    <li className="flex min-h-12 items-center gap-3 border-t border-line px-4 py-1.5 first:border-t-0">
      <div className="min-w-0 flex-1">
        <p className="truncate" title={name}>
          {name}
        </p>
        {state === "sending" ? (
          <div
            role="progressbar"
            aria-label={`Upload of ${name}`}
            aria-valuenow={percent}
            aria-valuemin={0}
            aria-valuemax={100}
            className="mt-1 h-1.5 overflow-hidden rounded-full bg-line"
          >
            <div className="h-full bg-accent" style={{ width: `${percent}%` }} />
          </div>
        ) : (
          problem !== null && <p className="break-words text-bad">{problem}</p>
        )}
      </div>
      <span className="tabular shrink-0 text-ink-soft">
        {state === "sending" ? `${bytes(sentBytes)} of ${bytes(sizeBytes)}` : state}
      </span>
      {!isOver(upload) && (
        <Button
          size="small"
          look="quiet"
          aria-label={`Cancel the upload of ${name}`}
          onClick={() => cancelUpload(id)}
        >
          Cancel
        </Button>
      )}
    </li>
  );
}
