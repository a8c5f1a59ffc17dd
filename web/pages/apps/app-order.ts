import type { AppBrief } from "../../../src/shapes/apps.ts";
import type { AppTraffic } from "../../../src/shapes/figures.ts";

/** What a list of apps can be sorted by. */
const APP_SORTS = ["name", "status", "replicas", "runs", "errors", "latency", "updated"] as const;
export type AppSort = (typeof APP_SORTS)[number];

/** A column, and whether it is turned around; the address has it as `runs` or `-runs`. */
export type AppOrder = { readonly by: AppSort; readonly order: "ascending" | "descending" };

export type TrafficByApp = ReadonlyMap<string, AppTraffic>;

/** What needs a look comes first. */
const STATUSES = ["error", "notready", "deploying", "pending", "ready", "cold"];

/** The order that an address names; by name otherwise. */
export function readAppOrder(sort: string | undefined): AppOrder {
  const isDown = sort?.startsWith("-") ?? false;
  const by = APP_SORTS.find((name) => name === (isDown ? sort?.slice(1) : sort)) ?? "name";
  return { by, order: isDown ? "descending" : "ascending" };
}

/** The address of the order after a click on a column: numbers begin with the largest. */
export function orderAfter(by: AppSort, last: AppOrder): string {
  const isDown = last.by === by ? last.order === "ascending" : by !== "name" && by !== "status";
  return isDown ? `-${by}` : by;
}

/** The apps in that order; those of which nothing is known come last, and equal ones go by name. */
export function inOrder(
  apps: readonly AppBrief[],
  { by, order }: AppOrder,
  traffic: TrafficByApp | undefined,
): AppBrief[] {
  const valueOf = VALUES[by];
  const known = new Map(apps.map((app) => [app.id, valueOf(app, traffic?.get(app.id))]));
  const sign = order === "ascending" ? 1 : -1;
  return apps.toSorted((a, b) => {
    const [x = null, y = null] = [known.get(a.id), known.get(b.id)];
    if (x === y) return a.id < b.id ? -1 : 1;
    if (x === null || y === null) return x === null ? 1 : -1;
    return x < y ? -sign : sign;
  });
}

const VALUES: Readonly<
  Record<AppSort, (app: AppBrief, traffic: AppTraffic | undefined) => string | number | null>
> = {
  name: ({ id }) => id,
  status: ({ status }) => STATUSES.indexOf(status),
  replicas: (_, traffic) => (traffic ? traffic.replicas.ready + traffic.replicas.starting : null),
  runs: (_, traffic) => (traffic ? runsOf(traffic) : null),
  errors: (_, traffic) => traffic?.errorRate ?? null,
  latency: (_, traffic) => traffic?.p95Ms ?? null,
  updated: ({ updatedAt }) => updatedAt,
};

/** How many runs an app had. */
export function runsOf({ runs }: AppTraffic): number {
  return runs.reduce((all, value) => all + value, 0);
}
