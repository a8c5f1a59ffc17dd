import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { changeNode, nodesQuery } from "../api/nodes.ts";
import type { NodeRecord } from "../api/nodes.ts";
import { Badge } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { bytes, count, share } from "../parts/format.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { SkeletonRows } from "../parts/skeleton.tsx";
import { Cell, Row, Table } from "../parts/table.tsx";
import { tell, tellError } from "../parts/toasts.tsx";
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
  { title: "Actions", align: "right" },
] as const;

/** The services that make up the installation, and what each has to do. For the operator. */
export function Nodes() {
  const { data: nodes, error, refetch } = useQuery(nodesQuery);
  const [chosen, setChosen] = useState<NodeRecord | null>(null);
  const change = useNodeChange();
  const isDraining = chosen?.state === "live";
  const confirm = (): void => {
    if (!chosen) return;
    change.mutate({ id: chosen.id, state: isDraining ? "leaving" : "live" });
    setChosen(null);
  };
  return (
    <Page
      title="Nodes"
      subtitle="The services that make up this installation, and how the apps and runs are spread over them."
    >
      <Card isFlush>
        {error ? (
          <Problem error={error} onRetry={() => void refetch()} />
        ) : (
          <Table columns={COLUMNS} label="Nodes">
            {nodes?.map((node) => (
              <NodeRow
                key={node.id}
                node={node}
                share={shareOf(node, nodes)}
                isAlone={nodes.length === 1}
                onChange={() => setChosen(node)}
              />
            )) ?? <SkeletonRows columns={COLUMNS.length} rows={3} />}
          </Table>
        )}
      </Card>
      <Confirm
        title={isDraining ? `Drain ${chosen?.name}?` : `Take ${chosen?.name ?? ""} back into use?`}
        isOpen={chosen !== null}
        onClose={() => setChosen(null)}
        onConfirm={confirm}
        action={isDraining ? "Drain" : "Take back"}
        isBusy={change.isPending}
      >
        {isDraining
          ? "It hands its apps over to the other nodes, one by one and without failing a call, and takes no more. Then it can be stopped."
          : "It takes apps again."}
      </Confirm>
    </Page>
  );
}

function useNodeChange() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ id, state }: Pick<NodeRecord, "id" | "state">) => changeNode(id, state),
    onSuccess: ({ name, state }) =>
      tell(state === "leaving" ? `${name} hands its apps over.` : `${name} takes apps again.`),
    onError: tellError,
    onSettled: async () => await queries.invalidateQueries({ queryKey: nodesQuery.queryKey }),
  });
}

/** How much of all runs under way a node executes. */
function shareOf({ runs }: NodeRecord, nodes: readonly NodeRecord[]): number | null {
  const all = nodes.reduce((sum, node) => sum + node.runs, 0);
  return all === 0 ? null : runs / all;
}

function NodeRow({
  node,
  share: ofRuns,
  isAlone,
  onChange,
}: {
  readonly node: NodeRecord;
  readonly share: number | null;
  readonly isAlone: boolean;
  readonly onChange: () => void;
}) {
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
      <Cell align="right">
        <span>{count(node.runs)}</span>
        {ofRuns !== null && !isAlone && <span className="ml-2 text-ink-faint">{share(ofRuns)}</span>}
      </Cell>
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
      <Cell align="right">
        {!isAlone && (
          <Button
            size="small"
            aria-label={`${node.state === "live" ? "Drain" : "Take back"} ${node.name}`}
            onClick={onChange}
          >
            {node.state === "live" ? "Drain" : "Take back"}
          </Button>
        )}
      </Cell>
    </Row>
  );
}
