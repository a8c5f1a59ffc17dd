import { divided, judge, medianBy, summary, type Verdict } from "../targets.ts";
import type { BacklogFigures } from "./backlog.ts";
import type { LinesFigures } from "./lines.ts";
import type { Pace } from "./own-pace.ts";
import type { QueueFigures } from "./queue.ts";
import type { QueueRound, QueueSubject } from "./rounds.ts";

const perSecond = (round: QueueRound): number => round.perSecond;

/** The promises of the queue. */
export function judgeQueue({ before, wishes, peers, backlogs, lines }: QueueFigures): Verdict[] {
  const single = peers?.single ?? [];
  const batched = peers?.batched ?? [];
  return [
    ...before.map((pace) => paceVerdict(pace, "submit to end, now / before", 0.97, "now", "before")),
    ...wishes.map((pace) =>
      paceVerdict(pace, "with priorities and fairness / without", 0.8, "wishes", "plain"),
    ),
    ...(peers === null
      ? []
      : [
          judge({
            what: "Millrace / pg-boss, one call at a time",
            bound: "at least",
            target: 2,
            unit: "ratio",
            ...besides(single, "millrace", "boss"),
          }),
          judge({
            what: "Millrace / pg-boss, in batches",
            bound: "at least",
            target: 2,
            unit: "ratio",
            ...besides(batched, "millrace", "boss"),
          }),
        ]),
    ...backlogs.flatMap(backlogVerdicts),
    ...lines.flatMap(linesVerdicts),
  ];
}

function paceVerdict(
  { database, subjects }: Pace,
  what: string,
  target: number,
  upper: string,
  lower: string,
): Verdict {
  const figures = besides(subjects, upper, lower);
  return judge({ what: `${database}: ${what}`, bound: "at least", target, unit: "ratio", ...figures });
}

/** Of both in the same round. */
function besides(
  subjects: readonly QueueSubject[],
  upper: string,
  lower: string,
): Pick<Verdict, "value" | "spread"> {
  const roundsOf = (id: string) => {
    const subject = subjects.find((each) => each.id === id);
    return subject?.status === "measured" ? subject.rounds : [];
  };
  return divided(roundsOf(upper), roundsOf(lower), perSecond);
}

function backlogVerdicts(figures: BacklogFigures): Verdict[] {
  const { database, problem, waiting, alone, short, behind, positionMs, pageMs, claimMs, storedPositionMs } =
    figures;
  const many = waiting.toLocaleString("en-US");
  const start = (what: string, to: readonly number[]): Verdict =>
    judge({
      what: `${database}: a run starts behind ${many} of another caller / ${what}`,
      bound: "at most",
      target: 1.5,
      unit: "ratio",
      value: problem === null ? ratioOf(behind.startMs, to) : null,
      spread: null,
    });
  const within = (what: string, times: readonly number[]): Verdict =>
    judge({
      what: `${database}: ${what}, p95`,
      bound: "at most",
      target: 20,
      unit: "ms",
      value: problem === null ? p95(times) : null,
      spread: summary(times).spread,
    });
  return [
    start("its time alone", alone.endMs),
    start("its start behind a short line", short.startMs),
    within("claims", claimMs),
    within("positions", storedPositionMs),
    within("a record with its position, over HTTP", positionMs),
    within("a page of the list, over HTTP", pageMs),
  ];
}

function linesVerdicts(figures: LinesFigures): Verdict[] {
  const { database, problem, lines, acceptedPerSecond, tenthBytes, acceptBytes } = figures;
  const many = lines.toLocaleString("en-US");
  const isSound = problem === null;
  return [
    judge({
      what: `${database}: lines of a batch of ${many}, accepted`,
      bound: "at least",
      target: 20_000,
      unit: "per second",
      value: isSound ? acceptedPerSecond : null,
      spread: null,
    }),
    judge({
      what: `${database}: most memory while accepting ${many} lines / a tenth of them`,
      bound: "at most",
      target: 1.25,
      unit: "ratio",
      value: isSound ? acceptBytes / tenthBytes : null,
      spread: null,
    }),
  ];
}

/** The median of one beside the median of the other. */
function ratioOf(upper: readonly number[], lower: readonly number[]): number | null {
  const [above, below] = [middle(upper), middle(lower)];
  return above === null || below === null ? null : above / below;
}

/** The value in the middle. */
export function middle(values: readonly number[]): number | null {
  return medianBy(values, (each) => each);
}

/** The value that one in twenty exceeds. */
export function p95(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * 0.95) - 1)] ?? null;
}
