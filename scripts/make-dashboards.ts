import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { APP } from "./dashboards/app.ts";
import { type Dashboard, dashboardJson } from "./dashboards/dashboard.ts";
import { GPU } from "./dashboards/gpus.ts";
import { INSTALLATION } from "./dashboards/installation.ts";
import { QUEUES } from "./dashboards/queues.ts";
import { CHART } from "./render-manifests.ts";

const PACKAGING = path.join(import.meta.dirname, "../packaging");
const RULES = "prometheus/alerts.yaml";

/** By the names of their files. */
export const DASHBOARDS: Readonly<Record<string, Dashboard>> = {
  "installation.json": INSTALLATION,
  "app.json": APP,
  "queues.json": QUEUES,
  "gpus.json": GPU,
};

/** The files that are made, with their text. Helm reads nothing outside its chart, so it has a copy of each. */
export function monitoringFiles(): Map<string, string> {
  const dashboards = Object.entries(DASHBOARDS).flatMap(([name, dashboard]) => {
    const text = dashboardJson(dashboard);
    return [
      [path.join(PACKAGING, "grafana", name), text],
      [path.join(CHART, "dashboards", name), text],
    ] as const;
  });
  const rules = readFileSync(path.join(PACKAGING, RULES), "utf8");
  return new Map([...dashboards, [path.join(CHART, "alerts.yaml"), rules]]);
}

if (import.meta.main) for (const [file, text] of monitoringFiles()) writeFileSync(file, text);
