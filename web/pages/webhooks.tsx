import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { DELIVERY_STATES } from "../../src/model/delivery.ts";
import type { DeliveryState } from "../../src/model/delivery.ts";
import { deliveriesQuery } from "../api/webhooks.ts";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { CodeBlock } from "../parts/copy.tsx";
import { Empty } from "../parts/empty.tsx";
import { LoadOlder } from "../parts/load-older.tsx";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { SkeletonRows } from "../parts/skeleton.tsx";
import { Table } from "../parts/table.tsx";
import { DELIVERY_COLUMNS, DeliveryRow } from "./webhooks/delivery-row.tsx";
import { RedeliverSpan } from "./webhooks/redeliver-span.tsx";
import { SigningSecrets } from "./webhooks/signing-secrets.tsx";

const HOW = "POST …/run?async=true&webhookEndpoint=https%3A%2F%2Fexample.com%2Fhook";

/** Responses on their way to webhooks, and the secrets that they are signed with. */
export function Webhooks() {
  const { projectId } = useParams({ from: "/gate/projects/$projectId" });
  const { state } = useSearch({ from: "/gate/projects/$projectId/webhooks" });
  const navigate = useNavigate({ from: "/projects/$projectId/webhooks" });
  const deliveries = useInfiniteQuery(deliveriesQuery(projectId, state));
  const [isAsking, setAsking] = useState(false);
  const items = deliveries.data?.pages.flatMap((page) => page.items);
  const narrow = (value: string): void => {
    const next = DELIVERY_STATES.find((name) => name === value);
    void navigate({ search: next ? { state: next } : {}, replace: true });
  };
  return (
    <Page
      title="Webhooks"
      subtitle="Responses forwarded to webhooks. A failed delivery is tried up to nine times over two days."
      actions={<Button onClick={() => setAsking(true)}>Resend a time span</Button>}
    >
      <div className="grid items-start gap-4 2xl:grid-cols-[minmax(0,1fr)_26rem]">
        <Card title="Deliveries" actions={<StateFilter state={state} onChange={narrow} />} isFlush>
          {deliveries.error ? (
            <Problem error={deliveries.error} onRetry={() => void deliveries.refetch()} />
          ) : items?.length === 0 ? (
            <NoDeliveries state={state} />
          ) : (
            <Table columns={DELIVERY_COLUMNS} label="Deliveries">
              {items?.map((delivery) => (
                <DeliveryRow key={delivery.id} projectId={projectId} delivery={delivery} />
              )) ?? <SkeletonRows columns={DELIVERY_COLUMNS.length} />}
            </Table>
          )}
          <LoadOlder
            hasMore={deliveries.hasNextPage}
            isBusy={deliveries.isFetchingNextPage}
            onLoad={() => void deliveries.fetchNextPage()}
          />
        </Card>
        <SigningSecrets projectId={projectId} />
      </div>
      <RedeliverSpan projectId={projectId} isOpen={isAsking} onClose={() => setAsking(false)} />
    </Page>
  );
}

function StateFilter({
  state = "",
  onChange,
}: {
  readonly state?: string | undefined;
  readonly onChange: (value: string) => void;
}) {
  return (
    <select
      aria-label="State"
      value={state}
      onChange={({ target }) => onChange(target.value)}
      className="h-8 rounded-md border border-line-strong bg-surface px-2"
    >
      <option value="">all states</option>
      {DELIVERY_STATES.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

function NoDeliveries({ state }: { readonly state: DeliveryState | undefined }) {
  if (state) return <Empty title={`No delivery is ${state}`}>Choose all states to see the others.</Empty>;
  return (
    <Empty title="No deliveries yet">
      <p className="mb-3">Call a function with the URL that should receive its response:</p>
      <div className="text-left">
        <CodeBlock text={HOW} label="How to call with a webhook" />
      </div>
    </Empty>
  );
}
