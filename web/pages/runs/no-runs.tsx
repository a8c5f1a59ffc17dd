import type { ReactNode } from "react";
import type { RunSearch } from "../../api/run-search.ts";
import { Button } from "../../parts/button.tsx";
import { Empty } from "../../parts/empty.tsx";

/** Where there are no runs: none that the filters let through, or none at all and how the first comes about. */
export function NoRuns({
  search,
  onClear,
  children,
}: {
  readonly search: RunSearch;
  readonly onClear: () => void;
  readonly children: ReactNode;
}) {
  if (Object.keys(search).length === 0) {
    return (
      <Empty title="No runs yet">
        <div className="text-left">{children}</div>
      </Empty>
    );
  }
  return (
    <Empty title="No runs match">
      <p className="mb-3">Old runs are removed, by default after 30 days.</p>
      <Button onClick={onClear}>Show all runs</Button>
    </Empty>
  );
}
