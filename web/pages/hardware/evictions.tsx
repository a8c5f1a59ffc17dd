import { Link } from "@tanstack/react-router";
import { nameOf } from "../../api/apps.ts";
import type { GpuHistoryRecord } from "../../api/hardware.ts";
import { count } from "../../parts/format.ts";
import { Time } from "../../parts/time.tsx";

type Eviction = GpuHistoryRecord["evictions"][number];

const MAX_SHOWN = 10;

/** Which apps made room for which on the GPUs of a machine, the latest first. */
export function Evictions({ evictions }: { readonly evictions: readonly Eviction[] }) {
  if (evictions.length === 0) return null;
  const shown = evictions.slice(-MAX_SHOWN).toReversed();
  return (
    <section className="border-t border-line px-4 py-3">
      <h3 className="mb-1 font-medium">Replicas that made room for another app in the last hour</h3>
      <ul aria-label="Evictions" className="flex flex-col gap-0.5">
        {shown.map(({ at, evicted, by }, index) => (
          <li key={evictions.length - index} className="flex flex-wrap gap-x-3">
            <span className="text-ink-soft">
              <Time at={at} />
            </span>
            <span className="min-w-0 wrap-anywhere">
              <App of={evicted} /> evicted for <App of={by} />
            </span>
          </li>
        ))}
        {evictions.length > MAX_SHOWN && (
          <li className="text-ink-faint">and {count(evictions.length - MAX_SHOWN)} more</li>
        )}
      </ul>
    </section>
  );
}

function App({ of: { appId, projectId } }: { readonly of: Eviction["by"] }) {
  return (
    <Link
      to="/projects/$projectId/apps/$appName"
      params={{ projectId, appName: nameOf(projectId, appId) }}
      className="text-accent underline-offset-2 hover:underline"
    >
      {nameOf(projectId, appId)}
    </Link>
  );
}
