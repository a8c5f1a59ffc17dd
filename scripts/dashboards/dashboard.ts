/** What a panel shows: an expression, and the name of its series. */
type Target = readonly [expr: string, legend: string];

type Panel = {
  readonly title: string;
  /** A unit of Grafana: `short`, `s`, `bytes`, `percentunit`, `reqps`… */
  readonly unit: string;
  readonly targets: readonly Target[];
  readonly help?: string;
  readonly kind?: "timeseries" | "stat" | "table";
  /** Of 24 columns. */
  readonly width?: number;
  /** Where a value turns red. */
  readonly alarm?: number;
  /** Series are stacked. */
  readonly isStacked?: boolean;
};

export type Dashboard = {
  readonly uid: string;
  readonly title: string;
  readonly help: string;
  /** The variables by which it is narrowed, each with the metric and label that its values come from. */
  readonly variables: readonly (readonly [name: string, values: string])[];
  /** In rows, each with its title. */
  readonly rows: Readonly<Record<string, readonly Panel[]>>;
};

const COLUMNS = 24;
const HEIGHT = 8;
const STAT_HEIGHT = 4;
const SOURCE = { type: "prometheus", uid: "${datasource}" };

/** The file that Grafana imports. */
export function dashboardJson({ uid, title, help, variables, rows }: Dashboard): string {
  const links = [{ type: "dashboards", tags: ["millrace"], title: "Millrace", asDropdown: true }];
  const dashboard = {
    uid,
    title,
    description: help,
    tags: ["millrace"],
    timezone: "browser",
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    schemaVersion: 39,
    time: { from: "now-6h", to: "now" },
    links,
    templating: { list: [datasource(), ...variables.map(([name, values]) => variable(name, values))] },
    panels: placed(rows),
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

function datasource() {
  return { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" };
}

function variable(name: string, values: string) {
  return {
    name,
    type: "query",
    datasource: SOURCE,
    query: { query: `label_values(${values})`, refId: name },
    definition: `label_values(${values})`,
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: ".*",
    current: { selected: true, text: "All", value: "$__all" },
  };
}

/** From left to right, row by row. */
function placed(rows: Dashboard["rows"]) {
  const panels: object[] = [];
  let [x, y, height] = [0, 0, 0];
  const newLine = (): void => {
    [x, y, height] = [0, y + height, 0];
  };
  for (const [title, members] of Object.entries(rows)) {
    newLine();
    panels.push({
      id: panels.length + 1,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x, y, w: COLUMNS, h: 1 },
    });
    y += 1;
    for (const panel of members) {
      const w = panel.width ?? COLUMNS / 2;
      if (x + w > COLUMNS) newLine();
      const h = panel.kind === "stat" ? STAT_HEIGHT : HEIGHT;
      panels.push({ id: panels.length + 1, gridPos: { x, y, w, h }, ...panelJson(panel) });
      x += w;
      height = Math.max(height, h);
    }
  }
  return panels;
}

function panelJson({ title, unit, targets, help, kind = "timeseries", alarm, isStacked = false }: Panel) {
  const steps = [
    { color: "green", value: null },
    ...(alarm === undefined ? [] : [{ color: "red", value: alarm }]),
  ];
  const custom = {
    lineWidth: 1,
    fillOpacity: isStacked ? 20 : 8,
    showPoints: "never",
    ...(isStacked && { stacking: { mode: "normal" } }),
  };
  return {
    type: kind,
    title,
    ...(help && { description: help }),
    datasource: SOURCE,
    targets: targets.map(([expr, legendFormat], i) => ({
      refId: String.fromCodePoint(65 + i),
      datasource: SOURCE,
      expr,
      legendFormat,
      ...(kind === "table" ? { instant: true, format: "table" } : { range: true }),
      ...(kind === "timeseries" && expr.includes("_bucket") && { exemplar: true }),
    })),
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        color: { mode: kind === "stat" ? "thresholds" : "palette-classic" },
        thresholds: { mode: "absolute", steps },
        ...(kind === "timeseries" && { custom }),
      },
      overrides: [],
    },
    ...(kind === "timeseries" && {
      options: {
        legend: { displayMode: "list", placement: "bottom" },
        tooltip: { mode: "multi", sort: "desc" },
      },
    }),
    ...(kind === "stat" && {
      options: { reduceOptions: { calcs: ["lastNotNull"] }, colorMode: "value", graphMode: "area" },
    }),
  };
}
