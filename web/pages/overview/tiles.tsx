import type { ReactNode } from "react";
import type { Figures } from "../../api/figures.ts";
import { classes } from "../../parts/classes.ts";
import { count, share, span } from "../../parts/format.ts";
import { Skeleton } from "../../parts/skeleton.tsx";

/** Async runs that wait longer than this are worth a look. */
const LONG_QUEUE_MS = 60_000;

/** The figures of a time and of now, at a glance. */
export function Tiles({ figures }: { readonly figures: Figures | undefined }) {
  return (
    <dl
      aria-label="Figures"
      className="grid grid-cols-12 gap-px overflow-hidden rounded-lg border border-line bg-line 2xl:grid-cols-14"
    >
      {figures ? <Filled figures={figures} /> : <Waiting />}
    </dl>
  );
}

function Filled({ figures: { total, now } }: { readonly figures: Figures }) {
  const { replicas } = now;
  const unfinished = now.running + now.waiting;
  const failures = total.failure - total.callerErrors;
  return (
    <>
      <Tile
        area={NARROW}
        title="Runs"
        note={unfinished === 0 ? "none in progress" : `${count(unfinished)} in progress`}
      >
        {count(total.runs)}
      </Tile>
      <Tile
        area={NARROW}
        title="Error rate"
        isBad={failures > 0}
        note={failureNote(failures, total.callerErrors)}
        hint="The share of runs that failed. What callers did wrong, such as arguments that do not fit, does not count."
      >
        {share(total.errorRate)}
      </Tile>
      <Tile area={WIDE} title="Response time" note="of runs that ended">
        <span className="flex flex-wrap items-baseline gap-x-5 max-sm:gap-x-3 max-sm:text-[1.25rem]">
          <Percentile name="p50" ms={total.p50Ms} />
          <Percentile name="p95" ms={total.p95Ms} />
          <Percentile name="p99" ms={total.p99Ms} />
        </span>
      </Tile>
      <Tile
        area={MIDDLE}
        title="Replicas ready"
        note={replicas.starting === 0 ? "none starting" : `${count(replicas.starting)} starting`}
      >
        {count(replicas.ready)}
      </Tile>
      <Tile
        area={MIDDLE}
        title="Cold starts"
        note={total.coldRuns === 1 ? "1 run waited for one" : `${count(total.coldRuns)} runs waited for one`}
        hint="Starts that calls waited for, since the service started; runs in the chosen time range."
      >
        {count(now.coldStarts)}
      </Tile>
      <Tile
        area={LAST}
        title="Queue age"
        isBad={now.queueAgeMs > LONG_QUEUE_MS}
        note={now.queueAgeMs === 0 ? "nothing is waiting" : "longest wait"}
      >
        {now.queueAgeMs === 0 ? "–" : span(now.queueAgeMs)}
      </Tile>
    </>
  );
}

function failureNote(failures: number, callerErrors: number): string {
  const own = failures === 1 ? "1 failure" : `${count(failures)} failures`;
  if (callerErrors === 0) return own;
  return `${own}, ${callerErrors === 1 ? "1 caller’s error" : `${count(callerErrors)} callers’ errors`}`;
}

// Two and three in a row, then four, then all.
const NARROW = "col-span-6 md:col-span-3 2xl:col-span-2";
const WIDE = "col-span-12 md:col-span-6 2xl:col-span-4";
const MIDDLE = "col-span-6 md:col-span-3 2xl:col-span-2";
const LAST = "col-span-12 md:col-span-6 2xl:col-span-2";
const AREAS = [NARROW, NARROW, WIDE, MIDDLE, MIDDLE, LAST];

function Tile({
  area,
  title,
  note,
  hint,
  isBad,
  children,
}: {
  readonly area: string;
  readonly title: string;
  readonly note: string;
  readonly hint?: string;
  readonly isBad?: boolean;
  readonly children: ReactNode;
}) {
  return (
    <div className={classes("bg-surface px-4 py-3", area)} title={hint}>
      <dt className="text-[0.9rem] text-ink-soft">{title}</dt>
      <dd>
        <span className={classes("tabular block text-[1.6rem] leading-9 font-semibold", isBad && "text-bad")}>
          {children}
        </span>
        <span className="tabular block truncate text-[0.86rem] text-ink-faint">{note}</span>
      </dd>
    </div>
  );
}

function Percentile({ name, ms }: { readonly name: string; readonly ms: number | null }) {
  return (
    <span className="whitespace-nowrap">
      <span className="mr-1.5 text-[0.86rem] font-normal text-ink-faint">{name}</span>
      {span(ms)}
    </span>
  );
}

function Waiting() {
  return AREAS.map((area, number) => (
    <div key={number} className={classes("bg-surface px-4 py-3", area)}>
      <Skeleton className="my-1 h-3.5 w-20" />
      <Skeleton className="my-2 h-5 w-24" />
      <Skeleton className="my-1 h-3 w-28" />
    </div>
  ));
}
