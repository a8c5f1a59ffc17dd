import { useEffect, useState } from "react";
import { exact, relative } from "./format.ts";

/** One clock for all that shows how long ago something was. */
function useNow(everyMs = 5_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** How long ago something was, exactly when hovered or read out. */
export function Time({ at }: { readonly at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span className="text-ink-faint">–</span>;
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={exact(ms)} className="tabular">
      {relative(ms, now)}
    </time>
  );
}
