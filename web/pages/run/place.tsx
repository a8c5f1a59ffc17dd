import type { Run } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { Fact } from "../../parts/fact.tsx";
import { count } from "../../parts/format.ts";
import { Time } from "../../parts/time.tsx";

/** Where a run stands in its app's queue, while it waits for its turn. */
export function RunPlace({ run }: { readonly run: Run }) {
  const { status, position, expectedStartAt } = run;
  if (status !== "queued" || position === undefined) return null;
  return (
    <Card title="Waiting for its turn">
      <dl className="grid grid-cols-2 gap-4 sm:grid-cols-3">
        <Fact title="Position in the queue">{count(position)}</Fact>
        <Fact title="Expected to begin">
          {expectedStartAt === undefined ? (
            <span className="text-ink-faint">not known yet</span>
          ) : (
            <Time at={expectedStartAt} />
          )}
        </Fact>
        <Fact title="Accepted">
          <Time at={run.createdAt} />
        </Fact>
      </dl>
    </Card>
  );
}
