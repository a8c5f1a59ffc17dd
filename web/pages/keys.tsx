import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { keysQuery } from "../api/keys.ts";
import type { Key, KeyWithToken } from "../api/keys.ts";
import { quotaText } from "../../src/model/usage.ts";
import { Badge } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { Empty } from "../parts/empty.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { SkeletonRows } from "../parts/skeleton.tsx";
import { Cell, Row, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { limitText } from "./keys/call-limits.tsx";
import { CreateKey } from "./keys/create-key.tsx";
import { DeleteKey, RotateKey, WeighKey } from "./keys/change-key.tsx";
import { ShowToken } from "./keys/show-token.tsx";

/** An owner is warned so long before a key ends. */
const WARN_MS = 14 * 86_400_000;

const COLUMNS = [
  { title: "Name" },
  { title: "Role" },
  { title: "Weight", isMinor: true },
  { title: "Last used", isMinor: true },
  { title: "Expires" },
  { title: "Created", isMinor: true },
  { title: "Actions", align: "right" },
] as const;

type Deed = { readonly kind: "create" } | { readonly kind: "rotate" | "weigh" | "delete"; readonly key: Key };

/** The project's service accounts: a key for each program that calls. */
export function Keys() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const { data: keys, error, refetch } = useQuery(keysQuery(projectId));
  const [deed, setDeed] = useState<Deed | null>(null);
  const [made, setMade] = useState<KeyWithToken | null>(null);
  const [now] = useState(Date.now);
  const living = keys?.filter(({ revokedAt }) => revokedAt === null);
  const ending = living?.filter(({ expiresAt }) => {
    const leftMs = Date.parse(expiresAt) - now;
    return leftMs > 0 && leftMs < WARN_MS;
  });
  const close = (): void => setDeed(null);
  return (
    <Page
      title="API keys"
      subtitle="One service account for each program. Its token works for calling apps and for the management API."
      actions={
        <Button look="primary" onClick={() => setDeed({ kind: "create" })}>
          Create key
        </Button>
      }
    >
      {ending && ending.length > 0 && (
        <p role="status" className="rounded-lg bg-warn-soft px-4 py-2.5 text-warn">
          {ending.map(({ name }) => name).join(", ")} {ending.length === 1 ? "expires" : "expire"} within 14
          days. Rotate in time, so that nothing stops working.
        </p>
      )}
      <Card isFlush>
        {error ? (
          <Problem error={error} onRetry={() => void refetch()} />
        ) : living?.length === 0 ? (
          <Empty title="No keys yet">
            Create one for each program and environment. Give it the smallest role that is enough: <b>run</b>{" "}
            for a program that calls apps, <b>call</b> for a web page.
          </Empty>
        ) : (
          <Table columns={COLUMNS} label="API keys">
            {living?.map((key) => (
              <Row key={key.id}>
                <Cell className="max-w-80 truncate">
                  <span className="font-medium" title={key.description ?? key.name}>
                    {key.name}
                  </span>
                </Cell>
                <Cell>
                  <Badge tone={key.role === "admin" ? "warn" : "neutral"}>{key.role}</Badge>
                  {key.apps && (
                    <span
                      className="ml-2 inline-block max-w-60 truncate align-bottom text-ink-soft"
                      title={limitText(key) ?? ""}
                    >
                      {key.apps.join(", ")}
                    </span>
                  )}
                  {key.quotas && (
                    <span className="ml-2 text-ink-faint" title={quotaText(key.quotas)}>
                      with quotas
                    </span>
                  )}
                </Cell>
                <Cell isMinor>
                  <Button
                    size="small"
                    look="quiet"
                    aria-label={`Change the weight of ${key.name}`}
                    title="How many turns its waiting calls have, compared with those of others"
                    onClick={() => setDeed({ kind: "weigh", key })}
                  >
                    {key.weight}
                  </Button>
                </Cell>
                <Cell isMinor>
                  {key.lastUsedAt ? (
                    <Time at={key.lastUsedAt} />
                  ) : (
                    <span className="text-ink-faint">never</span>
                  )}
                </Cell>
                <Cell>
                  {Date.parse(key.expiresAt) < now ? (
                    <Badge tone="bad">expired</Badge>
                  ) : ending?.includes(key) ? (
                    <Badge tone="warn">
                      <Time at={key.expiresAt} />
                    </Badge>
                  ) : (
                    <Time at={key.expiresAt} />
                  )}
                </Cell>
                <Cell isMinor>
                  <Time at={key.createdAt} />
                </Cell>
                <Cell align="right">
                  <span className="inline-flex gap-1.5">
                    <Button
                      size="small"
                      aria-label={`Rotate ${key.name}`}
                      onClick={() => setDeed({ kind: "rotate", key })}
                    >
                      Rotate
                    </Button>
                    <Button
                      size="small"
                      look="quiet"
                      aria-label={`Delete ${key.name}`}
                      onClick={() => setDeed({ kind: "delete", key })}
                    >
                      Delete
                    </Button>
                  </span>
                </Cell>
              </Row>
            )) ?? <SkeletonRows columns={COLUMNS.length} />}
          </Table>
        )}
      </Card>
      <CreateKey projectId={projectId} isOpen={deed?.kind === "create"} onClose={close} onMade={setMade} />
      <RotateKey
        projectId={projectId}
        target={deed?.kind === "rotate" ? deed.key : null}
        onClose={close}
        onMade={setMade}
      />
      <WeighKey projectId={projectId} target={deed?.kind === "weigh" ? deed.key : null} onClose={close} />
      <DeleteKey projectId={projectId} target={deed?.kind === "delete" ? deed.key : null} onClose={close} />
      <ShowToken made={made} onClose={() => setMade(null)} />
    </Page>
  );
}
