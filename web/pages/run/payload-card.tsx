import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { isTextType } from "../../api/media-type.ts";
import { SHOWN_BYTES, wholePayload } from "../../api/payload.ts";
import type { Payload, PayloadKind } from "../../api/payload.ts";
import type { RunIds } from "../../api/runs.ts";
import { Button } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { bytes } from "../../parts/format.ts";
import { prettyText } from "../../parts/payload-text.ts";
import { saveBlob } from "../../parts/save-text.ts";
import { tellError } from "../../parts/toasts.tsx";

/** What a run was given or answered, as far as it can be read; the whole is a click away. */
export function PayloadText({ payload, label }: { readonly payload: Payload; readonly label: string }) {
  const { text, isCut, contentType } = payload;
  if (text === "" && !isCut) return <p className="py-2 text-ink-soft">Empty.</p>;
  if (!isTextType(contentType)) {
    return <p className="py-2 wrap-anywhere text-ink-soft">This is {contentType}. Download it to see it.</p>;
  }
  return (
    <>
      {isCut && (
        <p className="mb-2 text-[0.9rem] text-ink-faint">
          The first {bytes(SHOWN_BYTES)}. Download it to see the rest.
        </p>
      )}
      <CodeBlock text={prettyText(text, isCut)} label={label} />
    </>
  );
}

/** Saves the whole of it as a file. */
export function DownloadPayload({
  ids,
  kind,
  children = "Download",
}: {
  readonly ids: RunIds;
  readonly kind: PayloadKind;
  readonly children?: ReactNode;
}) {
  const { mutate, isPending } = useMutation({
    mutationFn: () => wholePayload(ids, kind),
    onSuccess: (blob) => {
      const isJson = blob.type.startsWith("application/json");
      const ending = isJson ? "json" : isTextType(blob.type) ? "txt" : "bin";
      saveBlob(`${ids.runId}-${kind}.${ending}`, blob);
    },
    onError: tellError,
  });
  return (
    <Button size="small" look="quiet" isBusy={isPending} onClick={() => mutate()}>
      {children}
    </Button>
  );
}

/** Stands where a payload was, or never was. */
export function NotKept({ what }: { readonly what: string }) {
  return (
    <p className="py-2 text-ink-soft">
      {what} is no longer stored, or never was. Results and inputs are kept for the app&apos;s{" "}
      <code className="font-mono">result_retention</code>; those of sync runs only up to 64 KiB.
    </p>
  );
}
