const WIDTH = 120;
const HEIGHT = 28;
const GAP = 1;

/** How much there was, step by step, as small bars; what failed of it stands at their foot. As wide as its place. */
export function Sparkline({
  values,
  failures = [],
  top,
  label,
}: {
  readonly values: readonly number[];
  /** As many as the values, each at most its value. */
  readonly failures?: readonly number[];
  /** The value that is as tall as the picture, so that several can be compared; by default the largest. */
  readonly top?: number;
  /** What is read out in place of the picture. */
  readonly label: string;
}) {
  const most = top ?? Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length);
  const tall = (value: number): number => (value === 0 ? 0 : Math.max(1.5, (value / most) * (HEIGHT - 1)));
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      className="block h-7 w-full max-w-40 min-w-20"
    >
      <rect y={HEIGHT - 1} width={WIDTH} height={1} fill="var(--line)" />
      {values.map((value, index) => {
        const x = index * step;
        const width = Math.max(0.5, step - GAP);
        const bad = tall(failures[index] ?? 0);
        const all = Math.max(tall(value), bad);
        return value === 0 ? null : (
          <g key={index}>
            <rect x={x} y={HEIGHT - all} width={width} height={all - bad} fill="var(--chart-1)" />
            <rect x={x} y={HEIGHT - bad} width={width} height={bad} fill="var(--chart-2)" />
          </g>
        );
      })}
    </svg>
  );
}
