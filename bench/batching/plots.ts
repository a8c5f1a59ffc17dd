import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BatchingFigures, CurvePoint } from "./batching.ts";

type Series = { readonly id: string; readonly name: string; readonly points: readonly CurvePoint[] };
type Axis = { readonly title: string; readonly of: (point: CurvePoint) => number; readonly most?: number };

const WIDTH = 720;
const HEIGHT = 400;
const MARGIN = { left: 70, right: 20, top: 50, bottom: 50 };
const PLOT_WIDTH = WIDTH - MARGIN.left - MARGIN.right;
const PLOT_HEIGHT = HEIGHT - MARGIN.top - MARGIN.bottom;
/** Of each series a color that is told apart on white and on black, and a mark for those who see no colors. */
const LOOKS: Readonly<Record<string, { readonly color: string; readonly dash: string }>> = {
  untuned: { color: "#2f81f7", dash: "" },
  single: { color: "#8b949e", dash: "2 3" },
  ray: { color: "#d9822b", dash: "8 4" },
  litserve: { color: "#a371f7", dash: "10 3 2 3" },
  bentoml: { color: "#2da44e", dash: "4 4" },
};
const TICKS = 5;
/** The line of a series in the legend, with the space around it, and a letter of its name. */
const LEGEND_LINE = 50;
const LETTER = 6.5;
/** A longer p95 is beyond the top of the plot: near its maximum that of each subject grows without end. */
const MOST_P95_MS = 150;

/** Writes the plots of `docs/benchmarks.md`: answered calls per second, and p95, by the rate of calls. */
export function writePlots(dir: string, { curves }: Pick<BatchingFigures, "curves">): void {
  const offered: Axis = { title: "calls per second that come", of: ({ perSecond }) => perSecond };
  const answered: Axis = {
    title: "calls per second that are answered",
    of: ({ callsPerSecond }) => callsPerSecond,
  };
  const p95: Axis = { title: "p95 in ms", of: ({ p95Us }) => p95Us / 1000, most: MOST_P95_MS };
  writeFileSync(join(dir, "batching-throughput.svg"), plotOf("Answered calls", curves, offered, answered));
  writeFileSync(join(dir, "batching-p95.svg"), plotOf("Latency", curves, offered, p95));
}

/** An SVG with one line for each series. Text and axes have a color that can be read on white and on black. */
export function plotOf(title: string, all: readonly Series[], x: Axis, y: Axis): string {
  const series = all.filter(({ points }) => points.length > 0);
  const points = series.flatMap((each) => each.points);
  const mostX = roundUp(Math.max(1, ...points.map(x.of)));
  const mostY = Math.min(y.most ?? Infinity, roundUp(Math.max(1, ...points.map(y.of))));
  const left = (value: number) => MARGIN.left + (value / mostX) * PLOT_WIDTH;
  const top = (value: number) => MARGIN.top + (1 - value / mostY) * PLOT_HEIGHT;
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}: ${y.title}, by ${x.title}">`,
    "<style>text { font: 12px system-ui, sans-serif; fill: #768390 } .axis { stroke: #768390; stroke-opacity: 0.3 } .line { fill: none; stroke-width: 2 }</style>",
    `<clipPath id="plot"><rect x="${MARGIN.left}" y="${MARGIN.top}" width="${PLOT_WIDTH}" height="${PLOT_HEIGHT}"/></clipPath>`,
  ];
  for (let tick = 0; tick <= TICKS; tick++) {
    const [valueX, valueY] = [(mostX * tick) / TICKS, (mostY * tick) / TICKS];
    lines.push(
      `<line class="axis" x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${at(top(valueY))}" y2="${at(top(valueY))}"/>`,
      `<text x="${MARGIN.left - 8}" y="${at(top(valueY) + 4)}" text-anchor="end">${numeral(valueY)}</text>`,
      `<text x="${at(left(valueX))}" y="${HEIGHT - MARGIN.bottom + 18}" text-anchor="middle">${numeral(valueX)}</text>`,
    );
  }
  lines.push(
    `<text x="${MARGIN.left + PLOT_WIDTH / 2}" y="${HEIGHT - 10}" text-anchor="middle">${x.title}</text>`,
    `<text transform="translate(16 ${MARGIN.top + PLOT_HEIGHT / 2}) rotate(-90)" text-anchor="middle">${y.title}</text>`,
  );
  let legendX = MARGIN.left;
  for (const { id, name, points: its } of series) {
    const { color, dash } = LOOKS[id] ?? { color: "#768390", dash: "" };
    const stroke = `stroke="${color}"${dash === "" ? "" : ` stroke-dasharray="${dash}"`}`;
    const places = its.map((point) => [at(left(x.of(point))), at(top(y.of(point)))] as const);
    const path = places.map((place) => place.join(",")).join(" ");
    const marks = places.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3"/>`).join("");
    lines.push(
      `<polyline class="line" clip-path="url(#plot)" ${stroke} points="${path}"/>`,
      `<g clip-path="url(#plot)" fill="${color}">${marks}</g>`,
      `<line class="line" ${stroke} x1="${at(legendX)}" x2="${at(legendX + 24)}" y1="24" y2="24"/>`,
      `<text x="${at(legendX + 30)}" y="28">${name}</text>`,
    );
    legendX += LEGEND_LINE + LETTER * name.length;
  }
  return `${[...lines, "</svg>"].join("\n")}\n`;
}

/** The next value that divides well into ticks. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((each) => each * power >= value) ?? 10;
  return step * power;
}

function at(value: number): string {
  return `${Math.round(value * 10) / 10}`;
}

function numeral(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
}
