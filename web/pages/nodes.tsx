import { useQuery } from "@tanstack/react-query";
import { nodesQuery } from "../api/nodes.ts";
import type { NodeRecord } from "../api/nodes.ts";
import { Badge } from "../parts/badge.tsx";
import { Card } from "../parts/card.tsx";
import { bytes, count } from "../parts/format.ts";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { SkeletonRows } from "../parts/skeleton.tsx";
import { Cell, Row, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";

const COLUMNS = [
  { title: "Name" },
  { title: "State" },
  { title: "Apps", align: "right" },
  { title: "Runs", align: "right" },
  { title: "Address" },
  { title: "Machine", isMinor: true },
  { title: "Release", isMinor: true },
  { title: "Up since", isMinor: true },
] as const;

/** The services that make up the installation, and what each has to do. For the operator. */
export function Nodes() {
  const { data: nodes, error, refetch } = useQuery(nodesQuery);
  return (
    <Page
      title="Nodes"
      subtitle={
        <>
          The services that make up this installation. To take one out of use, run{" "}
          <code className="font-mono">millrace nodes drain</code>.
        </>
      }
    >
      <Card isFlush>
        {error ? (
          <Problem error={error} onRetry={() => void refetch()} />
        ) : (
          <Table columns={COLUMNS} label="Nodes">
            {nodes?.map((node) => <NodeRow key={node.id} node={node} />) ?? (
              <SkeletonRows columns={COLUMNS.length} rows={3} />
            )}
          </Table>
        )}
      </Card>
    </Page>
  );
}

function NodeRow({ node }: { readonly node: NodeRecord }) {
  return (
    <Row>
      <Cell className="max-w-80 truncate">
        <span className="font-medium" title={node.id}>
          {node.name}
        </span>{" "}
        {node.isSelf && <span className="text-ink-faint">this one</span>}
      </Cell>
      <Cell>
        <Badge tone={node.state === "live" ? "good" : "warn"}>{node.state}</Badge>
      </Cell>
      <Cell align="right">{count(node.apps)}</Cell>
      <Cell align="right">{count(node.runs)}</Cell>
      <Cell>
        {node.url === null ? (
          <span className="text-ink-faint">alone</span>
        ) : (
          <code className="font-mono text-[0.88rem]">{node.url}</code>
        )}
      </Cell>
      <Cell isMinor>
        {count(node.cpus)} CPU, {bytes(node.memoryBytes)}
      </Cell>
      <Cell isMinor>{node.release}</Cell>
      <Cell isMinor>
        <Time at={node.startedAt} />
      </Cell>
    </Row>
  );
}
