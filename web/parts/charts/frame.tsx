import { useLayoutEffect, useRef, useState } from "react";
import type { PointerEvent, ReactNode, RefObject } from "react";
import { roundTicks, stepLabel, timeLabel, timeTicks } from "./scale.ts";

const HEIGHT = 220;
const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 24;
const Y_TICKS = 4;
const X_TICK_WIDTH = 60;
const DAY_MS = 86_400_000;

/** One value of a step, as the readout says it. */
type Reading = { readonly name: string; readonly colour: string; readonly text: string };

/** The time that a chart is about. */
export type Axis = { readonly fromMs: number; readonly stepMs: number; readonly steps: number };

/** Something that happened at a time, drawn as a line across the chart. */
export type Mark = { readonly atMs: number; readonly title: string };

/** Where things are drawn. */
export type Plot = {
  /** The left edge of a step. */
  readonly x: (step: number) => number;
  readonly y: (value: number) => number;
  readonly stepWidth: number;
};

type Props = {
  /** What the chart shows, in a sentence: it is read out in its place. */
  readonly label: string;
  readonly axis: Axis;
  readonly marks?: readonly Mark[] | undefined;
  /** The greatest value. */
  readonly most: number;
  readonly isWhole: boolean;
  readonly format: (value: number) => string;
  readonly readings: (step: number) => readonly Reading[];
  /** What stands in the chart when there is nothing to draw. */
  readonly empty: ReactNode;
  readonly isEmpty: boolean;
  readonly children: (plot: Plot) => ReactNode;
};

/**
 * Axes with round numbers, as wide as there is room, and a readout of the step under the pointer. By keyboard it is a
 * range: arrows go from step to step.
 */
export function ChartFrame(props: Props) {
  const { label, axis, most, isWhole, format, readings, children } = props;
  const marks = (props.marks ?? []).filter(({ atMs }) => stepOf(axis, atMs) !== null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [chosen, setChosen] = useState<number | null>(null);
  const inner = Math.max(0, width - LEFT - RIGHT);
  const stepWidth = inner / Math.max(1, axis.steps);
  const ticks = roundTicks(most, Y_TICKS, isWhole);
  const top = ticks.at(-1) ?? 1;
  const plot: Plot = {
    x: (step) => LEFT + step * stepWidth,
    y: (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM),
    stepWidth,
  };
  const step = chosen === null ? null : Math.min(chosen, axis.steps - 1);
  const onMove = ({ clientX, currentTarget }: PointerEvent): void => {
    const at = (clientX - currentTarget.getBoundingClientRect().left - LEFT) / stepWidth;
    setChosen(Math.max(0, Math.min(axis.steps - 1, Math.floor(at))));
  };
  return (
    <div
      ref={box}
      onPointerMove={onMove}
      onPointerDown={onMove}
      onPointerLeave={() => setChosen(null)}
      className="relative has-[:focus-visible]:outline-2 has-[:focus-visible]:outline-accent"
      style={{ height: HEIGHT }}
    >
      {width > 0 && (
        <svg aria-hidden="true" width={width} height={HEIGHT} className="absolute inset-0 block">
          <Grid axis={axis} ticks={ticks} plot={plot} inner={inner} format={format} />
          {step !== null && (
            <rect
              x={plot.x(step)}
              y={TOP}
              width={stepWidth}
              height={HEIGHT - TOP - BOTTOM}
              fill="var(--ink)"
              opacity={0.08}
            />
          )}
          {children(plot)}
          {marks.map(({ atMs, title }) => (
            <MarkLine key={atMs} x={plot.x((atMs - axis.fromMs) / axis.stepMs)} title={title} />
          ))}
        </svg>
      )}
      <input
        type="range"
        aria-label={label}
        min={0}
        max={axis.steps - 1}
        value={step ?? axis.steps - 1}
        aria-valuetext={sentence(axis, step ?? axis.steps - 1, readings, marks)}
        onChange={({ target }) => setChosen(Number(target.value))}
        onFocus={({ target }) => target.matches(":focus-visible") && setChosen(axis.steps - 1)}
        onBlur={() => setChosen(null)}
        className="pointer-events-none absolute inset-0 size-full opacity-0"
      />
      {props.isEmpty && (
        <div className="pointer-events-none absolute inset-0 flex items-center justify-center pb-6 pl-13 text-center text-ink-faint">
          {props.empty}
        </div>
      )}
      {step !== null && width > 0 && !props.isEmpty && (
        <Readout
          axis={axis}
          step={step}
          x={plot.x(step + 0.5)}
          width={width}
          readings={readings(step)}
          notes={notesOf(axis, step, marks)}
        />
      )}
    </div>
  );
}

function Grid({
  axis,
  ticks,
  plot,
  inner,
  format,
}: {
  readonly axis: Axis;
  readonly ticks: readonly number[];
  readonly plot: Plot;
  readonly inner: number;
  readonly format: (value: number) => string;
}) {
  const toMs = axis.fromMs + axis.steps * axis.stepMs;
  const times = timeTicks(axis.fromMs, toMs, Math.max(2, Math.floor(inner / X_TICK_WIDTH)));
  return (
    <g className="tabular text-[11px]" fill="var(--ink-faint)">
      {ticks.map((tick) => (
        <g key={tick}>
          <rect
            x={LEFT}
            y={Math.round(plot.y(tick))}
            width={inner}
            height={1}
            fill={tick === 0 ? "var(--line-strong)" : "var(--line)"}
          />
          <text x={LEFT - 8} y={Math.round(plot.y(tick)) + 4} textAnchor="end">
            {format(tick)}
          </text>
        </g>
      ))}
      {times.map((ms) => {
        const x = plot.x((ms - axis.fromMs) / axis.stepMs);
        // A label at the edge would be cut off.
        return x < LEFT + 12 || x > LEFT + inner - 16 ? null : (
          <text key={ms} x={Math.round(x)} y={HEIGHT - 6} textAnchor="middle">
            {timeLabel(ms)}
          </text>
        );
      })}
    </g>
  );
}

function Readout({
  axis,
  step,
  x,
  width,
  readings,
  notes,
}: {
  readonly axis: Axis;
  readonly step: number;
  readonly x: number;
  readonly width: number;
  readonly readings: readonly Reading[];
  readonly notes: readonly string[];
}) {
  const isRight = x > width / 2;
  return (
    <div
      className="pointer-events-none absolute top-1 z-10 min-w-36 rounded-md border border-line bg-raised px-3 py-2 text-[0.86rem] shadow-lg"
      style={isRight ? { right: width - x + 12 } : { left: x + 12 }}
    >
      <p className="tabular mb-1 font-medium whitespace-nowrap">{stepTitle(axis, step)}</p>
      {readings.length === 0 && <p className="text-ink-soft">nothing</p>}
      {notes.map((note) => (
        <p key={note} className="whitespace-nowrap text-ink">
          {note}
        </p>
      ))}
      {readings.map(({ name, colour, text }) => (
        <p key={name} className="flex items-center gap-2 whitespace-nowrap text-ink-soft">
          <span className="size-2 rounded-xs" style={{ background: colour }} />
          {name}
          <span className="tabular ml-auto pl-3 text-ink">{text}</span>
        </p>
      ))}
    </div>
  );
}

function stepTitle({ fromMs, stepMs, steps }: Axis, step: number): string {
  return stepLabel(fromMs + step * stepMs, stepMs, steps * stepMs > DAY_MS);
}

function MarkLine({ x, title }: { readonly x: number; readonly title: string }) {
  return (
    <g>
      <title>{title}</title>
      <line
        x1={x}
        x2={x}
        y1={TOP}
        y2={HEIGHT - BOTTOM}
        stroke="var(--ink-soft)"
        strokeWidth={1}
        strokeDasharray="3 3"
      />
      <path d={`M ${x - 4} ${TOP - 4} h 8 l -4 6 z`} fill="var(--ink-soft)" />
    </g>
  );
}

/** The step in which a time is; null outside the chart. */
function stepOf({ fromMs, stepMs, steps }: Axis, atMs: number): number | null {
  const step = Math.floor((atMs - fromMs) / stepMs);
  return step >= 0 && step < steps ? step : null;
}

function notesOf(axis: Axis, step: number, marks: readonly Mark[]): string[] {
  return marks.filter(({ atMs }) => stepOf(axis, atMs) === step).map(({ title }) => title);
}

function sentence(axis: Axis, step: number, readings: Props["readings"], marks: readonly Mark[]): string {
  const values = [
    ...readings(step).map(({ name, text }) => `${name} ${text}`),
    ...notesOf(axis, step, marks),
  ];
  return `${stepTitle(axis, step)}: ${values.join(", ") || "nothing"}`;
}

/** The width of an element in whole pixels, as it changes; 0 before it is known. */
function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = (): void => setWidth(Math.floor(element.getBoundingClientRect().width));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return width;
}
