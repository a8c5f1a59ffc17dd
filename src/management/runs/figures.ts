import { z } from "zod";
import type { LiveStatus } from "../../model/app.ts";
import { appId } from "../../model/names.ts";
import { FIGURES, TRAFFIC, type ReplicaCounts } from "../../shapes/figures.ts";
import { timestamp } from "../../shapes/common.ts";
import type { RunFigures } from "../../store/runs/run-figures.ts";
import { findApp, TIME } from "../api/inputs.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { ManagementParts } from "../parts.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** A little more than records are kept. */
const MAX_SPAN_MS = 31 * DAY_MS;
const DEFAULT_SPAN_MS = HOUR_MS;

/** Round steps for charts. */
const STEPS_MS = [
  ...[1, 2, 5, 10, 15, 20, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 2].map((days) => days * DAY_MS),
];

/** The time span of the figures: by default the last hour, at most 31 days. */
const RANGE = z
  .object({ from: TIME.optional(), to: TIME.optional() })
  .refine(({ from, to }) => from === undefined || from < (to ?? Number.MAX_VALUE), {
    path: ["from"],
    error: "is not before to",
  });

/** A span in whole steps, at most about so many; the last one may not be over yet. */
function spanOf({ from, to }: z.output<typeof RANGE>, nowMs: number, maxSteps: number) {
  const endMs = to ?? nowMs;
  // The client's clock may be ahead of ours.
  const wantedMs = Math.min(from ?? endMs - DEFAULT_SPAN_MS, endMs - MINUTE_MS);
  const startMs = Math.max(wantedMs, endMs - MAX_SPAN_MS);
  // A round span is a little longer when its request arrives.
  const stepMs = STEPS_MS.find((ms) => (endMs - startMs) / ms < maxSteps + 1) ?? 2 * DAY_MS;
  const fromMs = Math.floor(startMs / stepMs) * stepMs;
  const toMs = Math.ceil(endMs / stepMs) * stepMs;
  return {
    span: { fromMs, toMs, stepMs },
    record: { from: timestamp(fromMs), to: timestamp(toMs), stepMs },
  };
}

const operation = tagged("Figures");
const PATH = "/v2/projects/{project_id}";
/** Only the newest runs are counted; 100,000 take about 70 ms. */
const MAX_RUNS = 200_000;
const MAX_FAILURES = 10;
const STEPS = 72;
const STEPS_OF_TRAFFIC = 24;

export function figureOperations({ store, liveStatuses, clock }: ManagementParts): Operation[] {
  return [
    operation("GET", `${PATH}/figures`, {
      id: "getFigures",
      summary:
        "Get runs over time by state and response time, for a project or one app, with its current queue and replicas",
      access: "run",
      query: RANGE.safeExtend({ app_id: z.string().min(1).max(200).optional() }),
      isHeavy: () => true,
      response: FIGURES,
      errors: ["app_not_found"],
      handle: async ({ params, projectId, query }) => {
        const app =
          query.app_id === undefined ? null : await findApp(store, { ...params, app_id: query.app_id });
        const nowMs = clock.now();
        const { span, record } = spanOf(query, nowMs, STEPS);
        const runs = { projectId, appNumber: app?.number ?? null, ...span, maxRuns: MAX_RUNS };
        const [figures, failures, queuedAt, apps, statuses] = await Promise.all([
          store.runFigures.ofSpan(runs),
          store.runFigures.lastFailures({ ...runs, limit: MAX_FAILURES }),
          store.runFigures.oldestQueuedAt(runs),
          app ? [app] : store.apps.list(projectId),
          liveStatuses(projectId),
        ]);
        const names = new Map(apps.map(({ number, name }) => [number, name]));
        const live = apps.flatMap(({ number }) => statuses.get(number) ?? []);
        return {
          ...record,
          steps: figures.steps.map((step, index) => ({
            at: timestamp(span.fromMs + index * span.stepMs),
            ...runsRecord(step),
          })),
          total: { ...runsRecord(figures.total), ...sharesOf(figures.total) },
          now: {
            // Not below 0: the clock may have been set back since.
            queueAgeMs: Math.max(0, nowMs - (queuedAt ?? nowMs), ...live.map((each) => each.oldestWaitMs)),
            waiting: sumOf(live.map((each) => each.waiting)),
            running: sumOf(live.map((each) => each.running)),
            replicas: replicasOf(live),
            coldStarts: sumOf(live.map((each) => each.coldStarts)),
            version: app && (statuses.get(app.number)?.version ?? null),
          },
          lastFailures: failures.map(
            ({ appNumber, id, functionName, createdAt, errorCode, errorMessage }) => ({
              id,
              appId: appId(projectId, names.get(appNumber) ?? ""),
              functionName,
              createdAt: timestamp(createdAt),
              error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? "" },
            }),
          ),
          isPartial: figures.sinceMs > span.fromMs,
          completeSince: timestamp(figures.sinceMs),
        };
      },
    }),
    operation("GET", `${PATH}/traffic`, {
      id: "getTraffic",
      summary: "Get each app's runs over time, version and replicas",
      access: "run",
      query: RANGE,
      isHeavy: () => true,
      response: TRAFFIC,
      handle: async ({ projectId, query }) => {
        const { span, record } = spanOf(query, clock.now(), STEPS_OF_TRAFFIC);
        const [apps, statuses, traffic] = await Promise.all([
          store.apps.list(projectId),
          liveStatuses(projectId),
          store.runFigures.byApp({ projectId, appNumber: null, ...span, maxRuns: MAX_RUNS }),
        ]);
        const byNumber = new Map(traffic.map((ofApp) => [ofApp.appNumber, ofApp]));
        return {
          ...record,
          items: apps.map(({ number, name }) => {
            const { version, replicas = NO_REPLICAS } = statuses.get(number) ?? {};
            return {
              appId: appId(projectId, name),
              version: version?.number ?? null,
              replicas,
              ...trafficRecord(byNumber.get(number)),
            };
          }),
        };
      },
    }),
  ];
}

function runsRecord({ byState, callerErrors, cold, p50Ms, p95Ms, p99Ms }: RunFigures) {
  return { ...byState, callerErrors, coldRuns: cold, p50Ms, p95Ms, p99Ms };
}

/** The error rate ignores cancelled runs, and is not raised by what callers did wrong. */
function sharesOf({ byState, callerErrors }: RunFigures) {
  const runs = sumOf(Object.values(byState));
  const ended = byState.success + byState.failure;
  return { runs, errorRate: ended === 0 ? null : (byState.failure - callerErrors) / ended };
}

function trafficRecord(traffic: { runs: number[]; failures: number[]; total: RunFigures } | undefined) {
  if (!traffic) return { runs: [], failures: [], callerErrors: 0, errorRate: null, p50Ms: null, p95Ms: null };
  const { runs, failures, total } = traffic;
  return {
    runs,
    failures,
    callerErrors: total.callerErrors,
    errorRate: sharesOf(total).errorRate,
    p50Ms: total.p50Ms,
    p95Ms: total.p95Ms,
  };
}

const NO_REPLICAS: ReplicaCounts = { starting: 0, ready: 0, draining: 0 };

function replicasOf(live: readonly LiveStatus[]): ReplicaCounts {
  const sum = (state: keyof ReplicaCounts): number => sumOf(live.map(({ replicas }) => replicas[state]));
  return { starting: sum("starting"), ready: sum("ready"), draining: sum("draining") };
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
