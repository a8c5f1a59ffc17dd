import type { ReactNode } from "react";
import { count } from "../format.ts";
import { ChartFrame } from "./frame.tsx";
import type { Axis, Mark, Plot } from "./frame.tsx";
import type { Series } from "./series.ts";

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
/** One among thousands is still to be seen. */
const LEAST_HEIGHT = 2;

type Values<Name extends string> = Readonly<Record<Name, number>>;

/** Counts step by step, one series upon the other, the first at the foot. */
export function StackedBars<Name extends string>({
  label,
  axis,
  series,
  values,
  marks,
  empty,
}: {
  readonly label: string;
  readonly axis: Axis;
  readonly series: readonly Series<Name>[];
  /** As many as the axis has steps. */
  readonly values: readonly Values<Name>[];
  readonly marks?: readonly Mark[];
  readonly empty: ReactNode;
}) {
  const sumOf = (step: Values<Name>): number => series.reduce((sum, { name }) => sum + step[name], 0);
  const most = Math.max(0, ...values.map(sumOf));
  return (
    <ChartFrame
      label={label}
      axis={axis}
      marks={marks}
      most={most}
      isWhole
      format={(value) => COMPACT.format(value)}
      isEmpty={most === 0}
      empty={empty}
      readings={(step) =>
        series
          .map(({ name, title, colour }) => ({ name: title, colour, value: values[step]?.[name] ?? 0 }))
          .filter(({ value }) => value > 0)
          .map(({ value, ...rest }) => ({ ...rest, text: count(value) }))
      }
    >
      {(plot) =>
        values.map((step, index) => <Bar key={index} plot={plot} index={index} step={step} series={series} />)
      }
    </ChartFrame>
  );
}

function Bar<Name extends string>({
  plot,
  index,
  step,
  series,
}: {
  readonly plot: Plot;
  readonly index: number;
  readonly step: Values<Name>;
  readonly series: readonly Series<Name>[];
}) {
  const left = Math.round(plot.x(index));
  const gap = plot.stepWidth > 4 ? 1 : 0;
  const width = Math.max(1, Math.round(plot.x(index + 1)) - left - gap);
  return (
    <g shapeRendering="crispEdges">
      {stack(plot, step, series).map(({ colour, y, height }) => (
        <rect key={colour} x={left} y={y} width={width} height={height} fill={colour} />
      ))}
    </g>
  );
}

function stack<Name extends string>(plot: Plot, step: Values<Name>, series: readonly Series<Name>[]) {
  const pieces: { readonly colour: string; readonly y: number; readonly height: number }[] = [];
  let y = Math.round(plot.y(0));
  for (const { name, colour } of series) {
    if (step[name] === 0) continue;
    const height = Math.max(LEAST_HEIGHT, Math.round(plot.y(0) - plot.y(step[name])));
    y -= height;
    pieces.push({ colour, y, height });
  }
  return pieces;
}
