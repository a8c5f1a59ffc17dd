import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { auditQuery } from "../api/audit.ts";
import type { AuditSearch } from "../api/audit.ts";
import { useIsOwner } from "../api/members.ts";
import { useNames } from "../api/names.ts";
import { Card } from "../parts/card.tsx";
import { Empty } from "../parts/empty.tsx";
import { LoadOlder } from "../parts/load-older.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { SkeletonRows } from "../parts/skeleton.tsx";
import { Table } from "../parts/table.tsx";
import { AuditFilters } from "./audit/filters.tsx";
import { AUDIT_COLUMNS, AuditRow } from "./audit/audit-row.tsx";

/** Every change of the project: who did what, when, and what it was before. */
export function Audit() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const isOwner = useIsOwner(projectId);
  return (
    <Page
      title="Audit"
      subtitle="Every change in the project, newest first. Nobody can change or delete entries."
    >
      {isOwner === false ? (
        <Card isFlush>
          <Empty title="For owners">
            Only owners of the project can see the audit log. Ask one of them to look, or to make you an
            owner.
          </Empty>
        </Card>
      ) : (
        <Changes projectId={projectId} />
      )}
    </Page>
  );
}

function Changes({ projectId }: { readonly projectId: string }) {
  const { entry, ...search } = useSearch({ from: "/gate/projects/$projectId/audit" });
  const navigate = useNavigate();
  const names = useNames(projectId);
  const setSearch = (next: AuditSearch): void =>
    void navigate({ to: "/projects/$projectId/audit", params: { projectId }, search: next, replace: true });
  return (
    <>
      <AuditFilters projectId={projectId} search={search} names={names} onChange={setSearch} />
      <Card isFlush>
        <Entries projectId={projectId} search={search} names={names} open={entry} />
      </Card>
    </>
  );
}

function Entries({
  projectId,
  search,
  names,
  open,
}: {
  readonly projectId: string;
  readonly search: AuditSearch;
  readonly names: ReadonlyMap<string, string>;
  readonly open: number | undefined;
}) {
  const audit = useInfiniteQuery(auditQuery(projectId, search));
  const entries = audit.data?.pages.flatMap(({ items }) => items);
  if (audit.error) return <Problem error={audit.error} onRetry={() => void audit.refetch()} />;
  if (entries?.length === 0 && !audit.hasNextPage && Object.keys(search).length > 0)
    return <Empty title="No change matches" />;
  if (entries?.length === 0 && !audit.hasNextPage) {
    return (
      <Empty title="No changes yet">
        Deploys, new keys, secrets, members and files are recorded here as they happen.
      </Empty>
    );
  }
  return (
    <>
      <Table columns={AUDIT_COLUMNS} label="Changes">
        {entries?.map((entry) => (
          <AuditRow
            key={entry.id}
            projectId={projectId}
            entry={entry}
            names={names}
            search={search}
            isOpen={open === Number(entry.id)}
          />
        )) ?? <SkeletonRows columns={AUDIT_COLUMNS.length} />}
      </Table>
      <LoadOlder
        hasMore={audit.hasNextPage}
        isBusy={audit.isFetchingNextPage}
        onLoad={() => void audit.fetchNextPage()}
      />
    </>
  );
}
