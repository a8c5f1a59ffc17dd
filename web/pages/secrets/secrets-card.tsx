import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useIsOwner } from "../../api/members.ts";
import { secretsQuery } from "../../api/secrets.ts";
import type { SecretHolder, SecretMap } from "../../api/secrets.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { EditSecret } from "./edit-secret.tsx";
import { RemoveSecret } from "./remove-secret.tsx";
import { SecretValue } from "./secret-value.tsx";

const COLUMNS = [{ title: "Name" }, { title: "Value" }, { title: "Actions", align: "right" }] as const;

type Deed =
  | { readonly kind: "edit"; readonly name: string | null }
  | { readonly kind: "remove"; readonly name: string };

/** The secrets of an app or of a project: add, show, change, remove. */
export function SecretsCard({
  holder,
  shared = {},
}: {
  readonly holder: SecretHolder;
  /** Those of the project, which an app's own take the place of. */
  readonly shared?: SecretMap;
}) {
  const { projectId, appName } = holder;
  const { data: secrets, error, refetch } = useQuery(secretsQuery(holder));
  const [deed, setDeed] = useState<Deed | null>(null);
  const mayChange = useIsOwner(projectId) ?? true;
  const close = (): void => setDeed(null);
  const names = secrets && Object.keys(secrets).toSorted();
  const title = `Secrets of ${appName === null ? "the project" : "this app"}`;
  const whose =
    appName === null ? "Each is an environment variable of every app." : "Each is an environment variable.";
  const flag = appName === null ? "" : `--app ${appName} `;
  return (
    <Card
      isFlush
      title={title}
      actions={
        <Button
          size="small"
          look={appName === null ? "plain" : "primary"}
          disabled={!mayChange || !secrets}
          onClick={() => setDeed({ kind: "edit", name: null })}
        >
          Add secret
        </Button>
      }
    >
      <p className="border-b border-line px-4 py-2.5 text-ink-soft">
        {whose} New replicas get these values; running ones keep what they have.
        {!mayChange && " Only owners of the project can change them."}
      </p>
      {error && !secrets ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : names?.length === 0 ? (
        <Empty title="No secrets yet">
          <p className="mb-3">Add one here, or from a terminal:</p>
          <CodeBlock label="Set secrets" text={`millrace secrets set ${flag}--env-file .env`} />
        </Empty>
      ) : (
        <Table columns={COLUMNS} label={title}>
          {names?.map((name) => (
            <Row key={name}>
              <Cell className="max-w-60 md:max-w-96">
                <span className="flex items-center gap-2">
                  <span className="min-w-0 truncate font-mono text-[0.92rem]" title={name}>
                    {name}
                  </span>
                  {Object.hasOwn(shared, name) && <Badge tone="warn">overrides the project’s</Badge>}
                </span>
              </Cell>
              <Cell className="max-w-md min-w-64">
                <SecretValue name={name} value={secrets?.[name] ?? ""} />
              </Cell>
              <Cell align="right">
                <span className="inline-flex gap-1.5">
                  <Button
                    size="small"
                    disabled={!mayChange}
                    aria-label={`Change ${name}`}
                    onClick={() => setDeed({ kind: "edit", name })}
                  >
                    Change
                  </Button>
                  <Button
                    size="small"
                    look="quiet"
                    disabled={!mayChange}
                    aria-label={`Remove ${name}`}
                    onClick={() => setDeed({ kind: "remove", name })}
                  >
                    Remove
                  </Button>
                </span>
              </Cell>
            </Row>
          )) ?? <SkeletonRows rows={3} columns={COLUMNS.length} />}
        </Table>
      )}
      {deed?.kind === "edit" && (
        <EditSecret holder={holder} name={deed.name} own={secrets ?? {}} shared={shared} onClose={close} />
      )}
      <RemoveSecret
        holder={holder}
        name={deed?.kind === "remove" ? deed.name : null}
        isShared={deed?.kind === "remove" && Object.hasOwn(shared, deed.name)}
        onClose={close}
      />
    </Card>
  );
}
