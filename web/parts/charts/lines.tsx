import type { ReactNode } from "react";
import { ChartFrame } from "./frame.tsx";
import type { Axis, Mark, Plot } from "./frame.tsx";
import type { Series } from "./series.ts";

type Values<Name extends string> = Readonly<Record<Name, number | null>>;

/** Values step by step, a line for each series; where there is no value it is broken off. */
export function Lines<Name extends string>({
  label,
  axis,
  series,
  values,
  marks,
  top = 0,
  format,
  empty,
}: {
  readonly label: string;
  readonly axis: Axis;
  readonly series: readonly Series<Name>[];
  /** As many as the axis has steps. */
  readonly values: readonly Values<Name>[];
  /** The scale reaches at least so far. */
  readonly top?: number;
  readonly format: (value: number) => string;
  readonly marks?: readonly Mark[];
  readonly empty: ReactNode;
}) {
  const most = Math.max(0, ...values.flatMap((step) => series.map(({ name }) => step[name] ?? 0)));
  return (
    <ChartFrame
      label={label}
      axis={axis}
      marks={marks}
      most={Math.max(most, top)}
      isWhole={false}
      format={format}
      isEmpty={most === 0}
      empty={empty}
      readings={(step) =>
        series.flatMap(({ name, title, colour }) => {
          const value = values[step]?.[name] ?? null;
          return value === null ? [] : [{ name: title, colour, text: format(value) }];
        })
      }
    >
      {(plot) =>
        series.map(({ name, colour }) => (
          <Line key={name} plot={plot} colour={colour} values={values.map((step) => step[name])} />
        ))
      }
    </ChartFrame>
  );
}

function Line({
  plot,
  colour,
  values,
}: {
  readonly plot: Plot;
  readonly colour: string;
  readonly values: readonly (number | null)[];
}) {
  return (
    <g stroke={colour} fill={colour}>
      {unbroken(values).map((points) => {
        const dots = points.map(([index, value]) => ({ x: plot.x(index + 0.5), y: plot.y(value) }));
        const [first] = dots;
        if (!first) return null;
        return dots.length === 1 ? (
          <circle key={first.x} cx={first.x} cy={first.y} r={2} stroke="none" />
        ) : (
          <polyline
            key={first.x}
            points={dots.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}
            fill="none"
            strokeWidth={1.6}
            strokeLinejoin="round"
          />
        );
      })}
    </g>
  );
}

/** The stretches without a gap, as places and values. */
function unbroken(values: readonly (number | null)[]): (readonly [number, number])[][] {
  const stretches: (readonly [number, number])[][] = [[]];
  for (const [index, value] of values.entries()) {
    if (value === null) stretches.push([]);
    else stretches.at(-1)?.push([index, value]);
  }
  return stretches;
}
