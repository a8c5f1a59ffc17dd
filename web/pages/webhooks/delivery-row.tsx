import { Link } from "@tanstack/react-router";
import { nameOf } from "../../api/apps.ts";
import type { Delivery } from "../../api/webhooks.ts";
import { StateBadge } from "../../parts/badge.tsx";
import { count } from "../../parts/format.ts";
import { Cell, Row } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";

export const DELIVERY_COLUMNS = [
  { title: "State" },
  { title: "To" },
  { title: "Run" },
  { title: "Attempts", align: "right" },
  { title: "Next try", isMinor: true },
  { title: "Created", align: "right" },
] as const;

const LINK = "text-accent underline-offset-2 hover:underline";

/** A delivery in the list of them. */
export function DeliveryRow({
  projectId,
  delivery,
}: {
  readonly projectId: string;
  readonly delivery: Delivery;
}) {
  const { id, url, state, modelId, attemptCount, nextAt, createdAt } = delivery;
  return (
    <Row>
      <Cell>
        <StateBadge state={state} />
      </Cell>
      <Cell className="max-w-56 truncate md:max-w-96">
        <Link
          to="/projects/$projectId/webhooks/$deliveryId"
          params={{ projectId, deliveryId: id }}
          title={url}
          className="font-medium underline-offset-2 hover:underline"
        >
          {url}
        </Link>
      </Cell>
      <Cell className="max-w-48 truncate">
        {modelId === null ? (
          <span className="text-ink-faint">of a deleted app</span>
        ) : (
          <Link
            to="/projects/$projectId/apps/$appName/runs/$runId"
            params={{ projectId, appName: nameOf(projectId, modelId), runId: id }}
            title={`Run ${id}`}
            className={LINK}
          >
            {nameOf(projectId, modelId)} …{id.slice(-8)}
          </Link>
        )}
      </Cell>
      <Cell align="right">{count(attemptCount)}</Cell>
      <Cell isMinor>
        <Time at={nextAt} />
      </Cell>
      <Cell align="right">
        <Time at={createdAt} />
      </Cell>
    </Row>
  );
}
