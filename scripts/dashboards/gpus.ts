import type { Dashboard } from "./dashboard.ts";
import { GPUS, OF_NODES } from "./expressions.ts";

export const GPU: Dashboard = {
  uid: "millrace-gpus",
  title: "Millrace: GPUs",
  help: "The GPUs of all nodes, and the replicas that hold them.",
  variables: [...OF_NODES, ["uuid", 'millrace_gpu_up{instance=~"$instance"}, uuid']],
  rows: {
    Health: [
      {
        title: "GPUs that work",
        unit: "short",
        kind: "stat",
        width: 6,
        targets: [[`sum(millrace_gpu_up{${GPUS}})`, ""]],
      },
      {
        title: "Out of service",
        unit: "short",
        kind: "stat",
        width: 6,
        alarm: 1,
        targets: [[`count(millrace_gpu_up{${GPUS}}) - sum(millrace_gpu_up{${GPUS}})`, ""]],
      },
      {
        title: "Memory granted",
        unit: "percentunit",
        kind: "stat",
        width: 6,
        targets: [
          [`sum(millrace_gpu_memory_granted_bytes{${GPUS}}) / sum(millrace_gpu_memory_bytes{${GPUS}})`, ""],
        ],
      },
      {
        title: "Hottest",
        unit: "celsius",
        kind: "stat",
        width: 6,
        alarm: 88,
        targets: [[`max(millrace_gpu_temperature_celsius{${GPUS}})`, ""]],
      },
    ],
    "Each GPU": [
      {
        title: "Utilization",
        unit: "percentunit",
        targets: [[`millrace_gpu_utilization_ratio{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Memory in use",
        unit: "bytes",
        targets: [[`millrace_gpu_memory_used_bytes{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Power",
        unit: "watt",
        targets: [[`millrace_gpu_power_watts{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
      {
        title: "Temperature",
        unit: "celsius",
        targets: [[`millrace_gpu_temperature_celsius{${GPUS}}`, "{{instance}} {{index}} {{model}}"]],
      },
    ],
    Replicas: [
      {
        title: "Granted",
        unit: "bytes",
        isStacked: true,
        targets: [
          [
            `sum by (project, app, index) (millrace_gpu_replica_granted_bytes{${GPUS}})`,
            "{{project}} {{app}} on {{index}}",
          ],
        ],
      },
      {
        title: "In use",
        unit: "bytes",
        isStacked: true,
        targets: [
          [
            `sum by (project, app, index) (millrace_gpu_replica_used_bytes{${GPUS}})`,
            "{{project}} {{app}} on {{index}}",
          ],
        ],
      },
    ],
  },
};
