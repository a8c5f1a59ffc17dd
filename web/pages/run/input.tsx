import { useQuery } from "@tanstack/react-query";
import { payloadQuery } from "../../api/payload.ts";
import type { RunIds } from "../../api/runs.ts";
import { Card } from "../../parts/card.tsx";
import { Problem } from "../../parts/problem.tsx";
import { Skeleton } from "../../parts/skeleton.tsx";
import { DownloadPayload, NotKept, PayloadText } from "./payload-card.tsx";

/** A run's arguments. */
export function Input({ ids }: { readonly ids: RunIds }) {
  const { data: payload, error, refetch } = useQuery(payloadQuery(ids, "input", true));
  return (
    <Card title="Input" actions={payload && <DownloadPayload ids={ids} kind="input" />}>
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
