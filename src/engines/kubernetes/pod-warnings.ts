import * as z from "zod/mini";
import type { KubernetesApi } from "./api.ts";
import { join, words } from "./pod-state.ts";

const WARNING = z.object({
  reason: words,
  message: z.optional(words),
  lastTimestamp: z.nullish(words),
  eventTime: z.nullish(words),
});
const EVENTS = z.object({ items: z.array(z.unknown()).check(z.maxLength(1_000)) });
const MAX_EVENTS = "50";
const WHAT_FAILED: Readonly<Record<string, string>> = {
  FailedMount: "a volume of its pod cannot be mounted",
  FailedAttachVolume: "a volume of its pod cannot be mounted",
  FailedCreatePodSandBox: "its pod cannot be set up",
};

/** The last thing that the cluster warned of a pod, for people; null where it did not, or where that cannot be read. */
export async function lastWarning(
  api: KubernetesApi,
  podName: string,
  signal: AbortSignal,
): Promise<string | null> {
  const query = { fieldSelector: `involvedObject.name=${podName},type=Warning`, limit: MAX_EVENTS };
  try {
    const answer = await api.ask({ method: "GET", path: api.pathOf("api/v1", "events"), query, signal });
    return latestOf(EVENTS.parse(answer).items);
  } catch {
    // It only explains. What the role lacks, doctor says; that nobody answers, the watch does.
    return null;
  }
}

function latestOf(items: readonly unknown[]): string | null {
  const [latest] = items
    .flatMap((each) => {
      const read = WARNING.safeParse(each);
      return read.success ? [read.data] : [];
    })
    .toSorted((one, other) => timeOf(other).localeCompare(timeOf(one)));
  return latest
    ? join(WHAT_FAILED[latest.reason] ?? `its pod waits (${latest.reason})`, latest.message)
    : null;
}

/** As the cluster writes times, a later one sorts behind. */
function timeOf({ lastTimestamp, eventTime }: z.infer<typeof WARNING>): string {
  return lastTimestamp ?? eventTime ?? "";
}
