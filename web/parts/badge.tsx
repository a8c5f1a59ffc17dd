import type { ReactNode } from "react";
import { classes } from "./classes.ts";

export type Tone = "neutral" | "good" | "bad" | "warn" | "busy" | "accent";

const TONES: Record<Tone, string> = {
  neutral: "bg-line/70 text-ink-soft",
  good: "bg-good-soft text-good",
  bad: "bg-bad-soft text-bad",
  warn: "bg-warn-soft text-warn",
  busy: "bg-busy-soft text-busy",
  accent: "bg-accent-soft text-accent",
};

/** A short word about the state of something. */
export function Badge({
  tone = "neutral",
  children,
}: {
  readonly tone?: Tone;
  readonly children: ReactNode;
}) {
  return (
    <span
      className={classes(
        "inline-flex h-5.5 items-center gap-1 rounded-full px-2 text-[0.82rem] font-medium whitespace-nowrap",
        TONES[tone],
      )}
    >
      {children}
    </span>
  );
}

const STATE_TONES: Readonly<Record<string, Tone>> = {
  // Runs
  success: "good",
  failure: "bad",
  failed: "bad",
  cancelled: "neutral",
  running: "busy",
  queued: "warn",
  // Firings of schedules
  started: "neutral",
  waiting: "warn",
  skipped: "neutral",
  // Batches
  uploading: "busy",
  cancelling: "warn",
  completed: "good",
  // Apps
  ready: "good",
  cold: "neutral",
  pending: "warn",
  deploying: "busy",
  notready: "warn",
  error: "bad",
  // Builds
  building: "busy",
  initializing: "busy",
  build_failure: "bad",
  init_failure: "bad",
  init_timeout: "bad",
  // Deliveries
  delivered: "good",
  none: "neutral",
};

/** The state of a run, an app, a build, a delivery or a batch, in the same colours everywhere. */
export function StateBadge({ state }: { readonly state: string }) {
  const isMoving =
    state === "running" ||
    state === "building" ||
    state === "initializing" ||
    state === "deploying" ||
    state === "uploading";
  return (
    <Badge tone={STATE_TONES[state] ?? "neutral"}>
      <span
        className={classes("size-1.5 rounded-full bg-current", isMoving && "animate-[shimmer_1.2s_infinite]")}
      />
      {state.replaceAll("_", " ")}
    </Badge>
  );
}

/** Marks a run that nobody waited for, and one that is a WebSocket. */
export function RunMarks({
  run,
}: {
  readonly run: { readonly async: boolean; readonly websocket: boolean };
}) {
  return (
    <>
      {run.async && <Badge tone="accent">async</Badge>}
      {run.websocket && <Badge tone="accent">WebSocket</Badge>}
    </>
  );
}
