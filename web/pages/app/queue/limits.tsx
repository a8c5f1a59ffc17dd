import type { QueueRecord } from "../../../api/queues.ts";
import { Card } from "../../../parts/card.tsx";
import { CodeBlock } from "../../../parts/copy.tsx";
import { Fact } from "../../../parts/fact.tsx";
import { count } from "../../../parts/format.ts";

type Limits = NonNullable<QueueRecord["limits"]>;

const EXAMPLE = '[queue]\nconcurrency_limit = 4\nrate_limit = "100/1m"';

/** What the app's `[queue]` allows. */
export function QueueLimits({ limits }: { readonly limits: Limits | null }) {
  return (
    <Card title="Limits">
      {limits ? (
        <dl className="grid grid-cols-2 gap-4 sm:grid-cols-3 lg:grid-cols-5">
          <Fact title="At once">{numberText(limits.concurrencyLimit)}</Fact>
          <Fact title="At once, per key">{numberText(limits.concurrencyKeyLimit)}</Fact>
          <Fact title="Begin">{rateText(limits.rateLimit)}</Fact>
          <Fact title="Begin, per key">{rateText(limits.concurrencyKeyRateLimit)}</Fact>
          <Fact title="May wait">{numberText(limits.maxBacklog)}</Fact>
        </dl>
      ) : (
        <>
          <p className="mb-3 text-ink-soft">
            Runs begin as soon as a replica has room. The app’s configuration can limit that:
          </p>
          <CodeBlock label="Limits of a queue" text={EXAMPLE} />
        </>
      )}
    </Card>
  );
}

function numberText(limit: number | null): string {
  return limit === null ? "any number" : count(limit);
}

function rateText(rate: Limits["rateLimit"]): string {
  if (rate === null) return "any number";
  const { count: runs, periodSeconds } = rate;
  return `${count(runs)} per ${periodSeconds === 1 ? "second" : `${periodSeconds} s`}`;
}
