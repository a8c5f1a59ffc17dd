const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const TIME_STEPS_MS = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 2, 7].map((days) => days * DAY_MS),
];

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECONDS = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** Round numbers from 0 to the first one that is not below `most`, about so many. */
export function roundTicks(most: number, wanted: number, isWhole: boolean): number[] {
  if (most <= 0) return [0, 1];
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? rough;
  const step = isWhole ? Math.max(1, Math.round(round)) : round;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** Times that are round where the viewer lives, at most so many. */
export function timeTicks(fromMs: number, toMs: number, most: number): number[] {
  const stepMs = TIME_STEPS_MS.find((ms) => (toMs - fromMs) / ms <= most) ?? 7 * DAY_MS;
  const zoneMs = new Date(fromMs).getTimezoneOffset() * MINUTE_MS;
  const firstMs = Math.ceil((fromMs - zoneMs) / stepMs) * stepMs + zoneMs;
  return Array.from(
    { length: Math.max(0, Math.floor((toMs - firstMs) / stepMs) + 1) },
    (_, index) => firstMs + index * stepMs,
  );
}

/** A time of day, or the day at its start. */
export function timeLabel(ms: number): string {
  const text = CLOCK.format(ms);
  return text === "00:00" ? DAY.format(ms) : text;
}

/** The time of a step, with its day where the whole is longer than one. */
export function stepLabel(ms: number, stepMs: number, isLong: boolean): string {
  const format = stepMs < MINUTE_MS ? SECONDS : CLOCK;
  const clock = stepMs >= DAY_MS ? "" : `${format.format(ms)} – ${format.format(ms + stepMs)}`;
  return isLong ? `${DAY.format(ms)} ${clock}`.trim() : clock;
}
