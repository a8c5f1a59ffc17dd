import { useQuery } from "@tanstack/react-query";
import { payloadQuery } from "../../api/payload.ts";
import type { RunPlace } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { DownloadPayload, NotKept, PayloadText } from "./payload-card.tsx";

/** A run's arguments. */
export function Input({ place }: { readonly place: RunPlace }) {
  const { data: payload, error, refetch } = useQuery(payloadQuery(place, "input", true));
  return (
    <Card title="Input" actions={payload && <DownloadPayload place={place} kind="input" />}>
      {error ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : payload === undefined ? (
        <Skeleton className="h-24 w-full" />
      ) : payload === null ? (
        <NotKept what="The input" />
      ) : (
        <PayloadText payload={payload} label="Input" />
      )}
    </Card>
  );
}
