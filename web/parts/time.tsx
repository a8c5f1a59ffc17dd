import { useSyncExternalStore } from "react";
import { exact, relative } from "./format.ts";

const EVERY_MS = 5_000;
/** Something new must not seem to lie ahead. */
const STALE_MS = 4_000;

/** One clock for all that shows how long ago something was; it stands while nothing does. */
const clock = {
  now: Date.now(),
  listeners: new Set<() => void>(),
  timer: undefined as ReturnType<typeof setInterval> | undefined,
};

function tick(): void {
  clock.now = Date.now();
  for (const listener of clock.listeners) listener();
}

function subscribe(listener: () => void): () => void {
  if (clock.listeners.size === 0) clock.timer = setInterval(tick, EVERY_MS);
  clock.listeners.add(listener);
  return () => {
    clock.listeners.delete(listener);
    if (clock.listeners.size === 0) clearInterval(clock.timer);
  };
}

function readNow(): number {
  if (Date.now() - clock.now >= STALE_MS) clock.now = Date.now();
  return clock.now;
}

/** How long ago something was, exactly when hovered or read out. */
export function Time({ at }: { readonly at: string | null | undefined }) {
  const now = useSyncExternalStore(subscribe, readNow);
  if (!at) return <span className="text-ink-faint">–</span>;
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={exact(ms)} className="tabular">
      {relative(ms, now)}
    </time>
  );
}
