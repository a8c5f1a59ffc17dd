import { useQuery } from "@tanstack/react-query";
import { nameOf } from "../../api/apps.ts";
import { keysQuery } from "../../api/keys.ts";
import { membersQuery, useIsOwner } from "../../api/members.ts";
import { usageQuery } from "../../api/usage.ts";
import type { UsageDays, UsageRecord, UsageTable } from "../../api/usage.ts";
import { Empty } from "../../parts/empty.tsx";
import { bytes, count, span } from "../../parts/format.ts";
import { Problem } from "../../parts/problem.tsx";
import { SkeletonRows } from "../../parts/skeleton.tsx";
import { Cell, Row, Table } from "../../parts/table.tsx";

type Props = { readonly projectId: string; readonly days: UsageDays; readonly by: UsageTable };

const HEADINGS: Readonly<Record<UsageTable, string>> = { app: "App", token: "Token", tag: "Tag" };

/** What each app, token or tag used, the one with the most calls first. */
export function UsageRows({ projectId, days, by }: Props) {
  const { data: usage, error, refetch } = useQuery(usageQuery(projectId, days, by));
  const names = useNames(projectId);
  if (error && !usage) return <Problem error={error} onRetry={() => void refetch()} />;
  if (usage?.items.length === 0)
    return (
      <Empty title={by === "tag" ? "No tags in these days" : "No calls in these days"}>
        {by === "tag"
          ? "Async calls may have tags: ?async=true&tag=nightly."
          : "Call an app, or look further back."}
      </Empty>
    );
  const columns = [
    { title: HEADINGS[by] },
    { title: "Calls", align: "right" },
    { title: "Failed", align: "right" },
    { title: "Ran", align: "right" },
    { title: "GPU", align: "right", isMinor: true },
    { title: "In", align: "right", isMinor: true },
    { title: "Out", align: "right", isMinor: true },
    { title: "Tokens in", align: "right", isMinor: true },
    { title: "Tokens out", align: "right", isMinor: true },
  ] as const;
  const titleOf = (used: UsageRecord): string => {
    if (by === "tag") return used.tag ?? "";
    if (by === "app") return nameOf(projectId, used.appId ?? "");
    return used.accountId ? (names.get(used.accountId) ?? used.accountId) : "no token";
  };
  return (
    <Table columns={columns} label={`Usage by ${by}`}>
      {usage?.items
        .toSorted((one, other) => other.calls - one.calls)
        .map((used) => (
          <Row key={`${used.appId} ${used.accountId} ${used.tag}`}>
            <Cell>{titleOf(used)}</Cell>
            <Cell align="right">{count(used.calls)}</Cell>
            <Cell align="right">{count(used.failed)}</Cell>
            <Cell align="right">{span(used.runSeconds * 1000)}</Cell>
            <Cell align="right" isMinor>
              {used.gpuSeconds > 0 ? span(used.gpuSeconds * 1000) : "–"}
            </Cell>
            <Cell align="right" isMinor>
              {bytes(used.requestBytes)}
            </Cell>
            <Cell align="right" isMinor>
              {bytes(used.responseBytes)}
            </Cell>
            <Cell align="right" isMinor>
              {used.inputTokens > 0 ? count(used.inputTokens) : "–"}
            </Cell>
            <Cell align="right" isMinor>
              {used.outputTokens > 0 ? count(used.outputTokens) : "–"}
            </Cell>
          </Row>
        )) ?? <SkeletonRows columns={columns.length} />}
    </Table>
  );
}

/** What people call accounts and members; ids for those who may not see them. */
function useNames(projectId: string): ReadonlyMap<string, string> {
  const isOwner = useIsOwner(projectId) === true;
  const { data: members = [] } = useQuery({ ...membersQuery(projectId), enabled: isOwner });
  const { data: keys = [] } = useQuery({ ...keysQuery(projectId), enabled: isOwner });
  return new Map([
    ...members.map(({ personId, email }) => [personId, email] as const),
    ...keys.map(({ id, name }) => [id, name] as const),
  ]);
}
