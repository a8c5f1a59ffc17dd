import type { Dashboard } from "./dashboard.ts";
import { APPS, RATE, OF_APPS, rate, quantiles } from "./expressions.ts";

export const QUEUES: Dashboard = {
  uid: "millrace-queues",
  title: "Millrace: queues",
  help: "Async runs that wait, and webhooks.",
  variables: OF_APPS,
  rows: {
    "Async runs": [
      {
        title: "Waiting, by priority",
        unit: "short",
        isStacked: true,
        targets: [[`sum by (priority) (millrace_queue_depth{${APPS}})`, "{{priority}}"]],
      },
      {
        title: "Waiting, by app",
        unit: "short",
        targets: [
          [`topk(10, sum by (project, app) (millrace_async_queued{${APPS}}))`, "{{project}} {{app}}"],
        ],
      },
      {
        title: "The oldest has waited",
        unit: "s",
        targets: [
          [`topk(10, max by (project, app) (millrace_async_oldest_seconds{${APPS}}))`, "{{project}} {{app}}"],
        ],
      },
      {
        title: "The queue grows",
        unit: "short",
        help: "Runs a second; below 0 it shrinks.",
        targets: [[`sum(deriv(millrace_async_queued{${APPS}}[${RATE}]))`, "runs a second"]],
      },
      { title: "Time in the queue", unit: "s", targets: quantiles("millrace_queue_seconds", APPS) },
      {
        title: "Runs that ended",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (state) (${rate("millrace_runs_total", APPS)})`, "{{state}}"]],
      },
      {
        title: "Taken too late",
        unit: "reqps",
        help: "Runs that were refused or ended because they waited for too long, or too many did.",
        targets: [
          [
            `sum by (code) (${rate("millrace_run_errors_total", `${APPS},code=~"expired|queue_full|queue_timeout|no_gpu_free"`)})`,
            "{{code}}",
          ],
        ],
      },
    ],
    Webhooks: [
      {
        title: "Attempts",
        unit: "reqps",
        isStacked: true,
        targets: [[`sum by (result) (rate(millrace_webhook_attempts_total[${RATE}]))`, "{{result}}"]],
      },
      {
        title: "Deliveries that have not ended",
        unit: "short",
        targets: [["max(millrace_webhooks_pending)", "pending"]],
      },
      {
        title: "The oldest of them",
        unit: "s",
        targets: [["max(millrace_webhook_oldest_seconds)", "oldest"]],
      },
    ],
  },
};
