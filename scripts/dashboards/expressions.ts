/** Narrows a metric to what the variables of a dashboard say. */
export const APPS = 'project=~"$project",app=~"$app"';
export const HOSTED = 'project_id=~"$project",app_name=~"$app"';
export const NODES = 'instance=~"$instance"';
export const GPUS = 'instance=~"$instance",uuid=~"$uuid"';
/** Grafana puts a span in its place that always has several scrapes. */
export const RATE = "$__rate_interval";

/** The variables of dashboards of apps, and of services. */
export const OF_APPS = [
  ["project", "millrace_runs_total, project"],
  ["app", 'millrace_runs_total{project=~"$project"}, app'],
] as const;
export const OF_NODES = [["instance", "millrace_build_info, instance"]] as const;

export const rate = (metric: string, labels: string): string => `rate(${metric}{${labels}}[${RATE}])`;

/** A quantile of a histogram; `by` is further labels, each after a comma. */
export const quantile = (share: number, metric: string, labels: string, by = ""): string =>
  `histogram_quantile(${share}, sum by (le${by}) (${rate(`${metric}_bucket`, labels)}))`;

export const quantiles = (metric: string, labels: string) =>
  ([0.5, 0.95, 0.99] as const).map((share) => [quantile(share, metric, labels), `p${share * 100}`] as const);

/** The share of runs that failed; 0 without any. */
export const failedShare = (labels: string): string =>
  `sum(${rate("millrace_runs_total", `${labels},state="failure"`)}) / clamp_min(sum(${rate("millrace_runs_total", `${labels},state=~"success|failure"`)}), 1e-9)`;
