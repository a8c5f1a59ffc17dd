import type { ProjectUsage, UsageRecord } from "../../api/usage.ts";
import { Card } from "../../parts/card.tsx";
import { Fact } from "../../parts/fact.tsx";
import { bytes, count, span } from "../../parts/format.ts";

const HOUR_SECONDS = 3600;

/** What all these days used together. */
export function UsageTotals({ usage: { items } }: { readonly usage: ProjectUsage }) {
  const sum = (of: (used: UsageRecord) => number): number =>
    items.reduce((total, used) => total + of(used), 0);
  const gpuSeconds = sum((used) => used.gpuSeconds);
  const heldSeconds = sum(({ replicas }) => replicas?.gpuSeconds ?? 0);
  const tokens = sum((used) => used.inputTokens + used.outputTokens);
  return (
    <Card title="All together">
      <dl className="grid grid-cols-[repeat(auto-fill,minmax(9.5rem,1fr))] gap-x-6 gap-y-3">
        <Fact title="Calls">{count(sum((used) => used.calls))}</Fact>
        <Fact title="Failed">{count(sum((used) => used.failed))}</Fact>
        <Fact title="Inside functions">{span(sum((used) => used.runSeconds) * 1000)}</Fact>
        <Fact title="In · out">
          {`${bytes(sum((used) => used.requestBytes))} · ${bytes(sum((used) => used.responseBytes))}`}
        </Fact>
        {tokens > 0 && (
          <Fact title="Tokens in · out">
            {`${count(sum((used) => used.inputTokens))} · ${count(sum((used) => used.outputTokens))}`}
          </Fact>
        )}
        {gpuSeconds > 0 && <Fact title="GPUs of calls">{span(gpuSeconds * 1000)}</Fact>}
        <Fact title="Replicas">{span(sum(({ replicas }) => replicas?.seconds ?? 0) * 1000)}</Fact>
        <Fact title="Processors">{span(sum(({ replicas }) => replicas?.cpuSeconds ?? 0) * 1000)}</Fact>
        <Fact title="Memory">
          {`${(sum(({ replicas }) => replicas?.gbSeconds ?? 0) / HOUR_SECONDS).toFixed(2)} GB·h`}
        </Fact>
        {heldSeconds > 0 && <Fact title="GPUs of replicas">{span(heldSeconds * 1000)}</Fact>}
      </dl>
    </Card>
  );
}
