import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import { appSecretsQuery, projectSecretsQuery } from "../../api/secrets.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Card } from "../../parts/card.tsx";
import { CodeBlock } from "../../parts/copy.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";
import { useIsOwner } from "./is-owner.ts";
import { EditSecret } from "./secrets/edit-secret.tsx";
import { RemoveSecret } from "./secrets/remove-secret.tsx";
import { SecretValue } from "./secrets/secret-value.tsx";

const COLUMNS = [{ title: "Name" }, { title: "Value" }, { title: "Actions", align: "right" }] as const;

type Deed =
  | { readonly kind: "edit"; readonly name: string | null }
  | { readonly kind: "remove"; readonly name: string };

/** What an app gets as environment variables and nobody else is to know. */
export function AppSecrets() {
  const { projectId, appName } = useParams({ from: "/gate/projects/$projectId/apps/$appName" });
  const { data: secrets, error, refetch } = useQuery(appSecretsQuery(projectId, appName));
  const { data: shared = {} } = useQuery(projectSecretsQuery(projectId));
  const [deed, setDeed] = useState<Deed | null>(null);
  const mayChange = useIsOwner(projectId);
  const close = (): void => setDeed(null);
  const names = secrets && Object.keys(secrets).toSorted();
  return (
    <div className="flex flex-col gap-4">
      <Card
        isFlush
        title="Secrets of this app"
        actions={
          <Button
            size="small"
            look="primary"
            disabled={!mayChange || !secrets}
            onClick={() => setDeed({ kind: "edit", name: null })}
          >
            Add secret
          </Button>
        }
      >
        <p className="border-b border-line px-4 py-2.5 text-ink-soft">
          Each is an environment variable. Replicas that start from now on get what is here; those that run
          keep what they have.{!mayChange && " Only owners of the project change them."}
        </p>
        {error && !secrets ? (
          <Problem error={error} onRetry={() => void refetch()} />
        ) : names?.length === 0 ? (
          <Empty title="No secrets yet">
            <p className="mb-3">Add one here, or from a terminal:</p>
            <CodeBlock label="Set secrets" text={`millrace secrets set --app ${appName} --env-file .env`} />
          </Empty>
        ) : (
          <Table columns={COLUMNS} label="Secrets of this app">
            {names?.map((name) => (
              <Row key={name}>
                <Cell className="max-w-60 md:max-w-96">
                  <span className="flex items-center gap-2">
                    <span className="min-w-0 truncate font-mono text-[0.92rem]" title={name}>
                      {name}
                    </span>
                    {Object.hasOwn(shared, name) && <Badge tone="warn">over the project’s</Badge>}
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
      </Card>
      <SharedSecrets
        names={Object.keys(shared).filter((name) => !secrets || !Object.hasOwn(secrets, name))}
      />
      {deed?.kind === "edit" && (
        <EditSecret
          projectId={projectId}
          appName={appName}
          name={deed.name}
          own={secrets ?? {}}
          shared={shared}
          onClose={close}
        />
      )}
      <RemoveSecret
        projectId={projectId}
        appName={appName}
        name={deed?.kind === "remove" ? deed.name : null}
        isShared={deed?.kind === "remove" && Object.hasOwn(shared, deed.name)}
        onClose={close}
      />
    </div>
  );
}

function SharedSecrets({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <Card title="From the project">
      <p className="mb-3 text-ink-soft">
        Every app of the project gets these too. One of the same name above takes their place in this app.
      </p>
      <ul className="flex flex-wrap gap-2">
        {names.toSorted().map((name) => (
          <li key={name} className="max-w-full truncate rounded bg-sunken px-2 py-1 font-mono text-[0.9rem]">
            {name}
          </li>
        ))}
      </ul>
    </Card>
  );
}
