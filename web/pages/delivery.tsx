import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { nameOf } from "../api/apps.ts";
import { deliveryQuery, redeliver } from "../api/webhooks.ts";
import type { DeliveryDetail } from "../api/webhooks.ts";
import { StateBadge } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Card } from "../parts/card.tsx";
import { Copy } from "../parts/copy.tsx";
import { Empty } from "../parts/empty.tsx";
import { count } from "../parts/format.ts";
import { Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { Skeleton } from "../parts/skeleton.tsx";
import { Time } from "../parts/time.tsx";
import { tell, tellError } from "../parts/toasts.tsx";
import { AttemptEntry } from "./delivery/attempt.tsx";
import { Fact } from "../parts/fact.tsx";

/** One delivery and every attempt at it. */
export function DeliveryPage() {
  const { projectId, deliveryId } = useParams({ from: "/gate/projects/$projectId/webhooks/$deliveryId" });
  const queries = useQueryClient();
  const { data: delivery, error, refetch } = useQuery(deliveryQuery(projectId, deliveryId));
  const { mutate, isPending } = useMutation({
    mutationFn: () => redeliver(projectId, deliveryId),
    onSuccess: async (sent) => {
      await queries.invalidateQueries({ queryKey: deliveryQuery(projectId, deliveryId).queryKey });
      tell(sent === 0 ? "It is already being sent." : "It will be sent again.");
    },
    onError: tellError,
  });
  return (
    <Page
      title="Delivery"
      subtitle={
        <Link
          to="/projects/$projectId/webhooks"
          params={{ projectId }}
          className="underline underline-offset-2 hover:text-ink"
        >
          All deliveries
        </Link>
      }
      actions={
        <Button look="primary" disabled={!delivery} isBusy={isPending} onClick={() => mutate()}>
          Send again
        </Button>
      }
    >
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : (
        <>
          <Card>
            {delivery ? <Facts projectId={projectId} delivery={delivery} /> : <Skeleton className="h-38" />}
          </Card>
          <Card title="Attempts" isFlush>
            {delivery?.attempts.length === 0 ? (
              <Empty title="Not tried yet">The first attempt is made as soon as the run has ended.</Empty>
            ) : (
              <ol>
                {delivery?.attempts
                  .toReversed()
                  .map((attempt) => <AttemptEntry key={attempt.number} attempt={attempt} />) ?? (
                  <li className="p-4">
                    <Skeleton />
                  </li>
                )}
              </ol>
            )}
          </Card>
        </>
      )}
    </Page>
  );
}

function Facts({ projectId, delivery }: { readonly projectId: string; readonly delivery: DeliveryDetail }) {
  const { id, url, state, modelId, runStatusCode, contentType, attemptCount, nextAt, createdAt } = delivery;
  return (
    <dl className="grid gap-x-8 gap-y-3 grid-cols-2 lg:grid-cols-4">
      <Fact title="To" isWide>
        <span className="flex items-start gap-2">
          <span className="min-w-0 flex-1 font-mono text-[0.9rem] break-all">{url}</span>
          <Copy text={url} />
        </span>
      </Fact>
      <Fact title="State">
        <StateBadge state={state} />
      </Fact>
      <Fact title="Run">
        {modelId === null ? (
          <span className="break-all">{id}</span>
        ) : (
          <Link
            to="/projects/$projectId/apps/$appName/runs/$runId"
            params={{ projectId, appName: nameOf(projectId, modelId), runId: id }}
            className="break-all text-accent underline-offset-2 hover:underline"
          >
            {nameOf(projectId, modelId)} …{id.slice(-8)}
          </Link>
        )}
      </Fact>
      <Fact title="The run's answer">
        <span className="tabular break-all">
          {runStatusCode} {contentType}
        </span>
      </Fact>
      <Fact title="Attempts">
        <span className="tabular">{count(attemptCount)}</span>
      </Fact>
      <Fact title="Next try">
        <Time at={nextAt} />
      </Fact>
      <Fact title="Created">
        <Time at={createdAt} />
      </Fact>
    </dl>
  );
}
