import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ReactNode } from "react";
import { buildsQuery, cancelBuild, isUnderWay, shortId } from "../../../api/builds.ts";
import type { Build } from "../../../api/builds.ts";
import { useNames } from "../../../api/names.ts";
import { Badge, StateBadge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { Card } from "../../../parts/card.tsx";
import { classes } from "../../../parts/classes.ts";
import { Copy } from "../../../parts/copy.tsx";
import { Confirm } from "../../../parts/dialog.tsx";
import { span } from "../../../parts/format.ts";
import { Time } from "../../../parts/time.tsx";
import { tell, tellError } from "../../../parts/toasts.tsx";
import { RollBack } from "../builds/roll-back.tsx";

/** A longer one is cut; the log has the whole. */
const MAX_MESSAGE_CHARS = 2_000;

type Props = { readonly projectId: string; readonly appName: string; readonly build: Build };

/** What is known of a build, and what can be done about it. */
export function BuildFacts({ projectId, appName, build }: Props) {
  const { id, status, createdAt, updatedAt, message, version, isServing } = build;
  const names = useNames(projectId);
  const author = build.deployedBy && (names.get(build.deployedBy) ?? build.deployedBy);
  const [deed, setDeed] = useState<"cancel" | "serve" | null>(null);
  const close = (): void => setDeed(null);
  return (
    <Card
      title={`Build ${shortId(id)}`}
      actions={
        <>
          <Copy text={id} label="Copy id" />
          {isUnderWay(build) && (
            <Button size="small" onClick={() => setDeed("cancel")}>
              Cancel build
            </Button>
          )}
          {version !== null && !isServing && (
            <Button size="small" onClick={() => setDeed("serve")}>
              Roll back to this version
            </Button>
          )}
        </>
      }
    >
      <dl className="grid grid-cols-2 gap-x-8 gap-y-3 md:grid-cols-5">
        <Fact title="Status">
          <StateBadge state={status} />
        </Fact>
        <Fact title="Version">
          {version ?? "–"}
          {isServing && <Badge tone="good">live</Badge>}
        </Fact>
        <Fact title="Deployed by">
          <span className="min-w-0 truncate" title={build.deployedBy ?? undefined}>
            {author ?? "–"}
          </span>
        </Fact>
        <Fact title="Started">
          <Time at={createdAt} />
        </Fact>
        <Fact title="Took">
          <span className="tabular">
            {isUnderWay(build) ? "–" : span(Date.parse(updatedAt) - Date.parse(createdAt))}
          </span>
        </Fact>
      </dl>
      {message && (
        <p
          className={classes(
            "mt-4 rounded-md px-3 py-2 break-words whitespace-pre-wrap",
            status === "cancelled" ? "bg-sunken text-ink-soft" : "bg-bad-soft text-bad",
          )}
        >
          {message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS)}…` : message}
        </p>
      )}
      <CancelBuild
        projectId={projectId}
        appName={appName}
        build={build}
        isOpen={deed === "cancel"}
        onClose={close}
      />
      <RollBack
        projectId={projectId}
        appName={appName}
        target={deed === "serve" ? build : null}
        onClose={close}
      />
    </Card>
  );
}

function Fact({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt className="mb-0.5 text-[0.9rem] text-ink-soft">{title}</dt>
      <dd className="flex min-h-6 items-center gap-2">{children}</dd>
    </div>
  );
}

function CancelBuild({
  projectId,
  appName,
  build,
  isOpen,
  onClose,
}: Props & { readonly isOpen: boolean; readonly onClose: () => void }) {
  const queries = useQueryClient();
  const { data: hasServing = false } = useQuery({
    ...buildsQuery(projectId, appName),
    select: (builds) => builds.some(({ isServing }) => isServing),
  });
  const { mutate, isPending } = useMutation({
    mutationFn: () => cancelBuild(projectId, appName, build.id),
    onSuccess: () => tell("The build is cancelled."),
    onError: tellError,
    onSettled: async () => {
      await queries.invalidateQueries({ queryKey: buildsQuery(projectId, appName).queryKey });
      onClose();
    },
  });
  return (
    <Confirm
      title="Cancel this build?"
      isOpen={isOpen}
      onClose={onClose}
      onConfirm={() => mutate()}
      action="Cancel build"
      isBusy={isPending}
    >
      {hasServing ? "The previous version keeps serving." : "No version serves yet."} Deploy again to retry.
    </Confirm>
  );
}
