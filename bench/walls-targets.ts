import { divided, judge, type Verdict } from "./targets.ts";
import type { Sides, StartFigures, WallsFigures } from "./walls.ts";

/** What walls may cost, by processor time: a shared machine changes the clock's figures more than they do. */
export function judgeWalls({ sync, keptTemplate, firstStart, problem }: WallsFigures): Verdict[] {
  const isWhole = problem === null;
  const rounds = (id: "millrace" | "walls") =>
    sync.find((result) => result.id === id && result.status === "measured")?.rounds[32] ?? [];
  const calls = { plain: rounds("millrace"), walls: rounds("walls") };
  return [
    judge({
      what: "calls per second of processor time, with / without",
      bound: "at least",
      target: 0.97,
      unit: "ratio",
      ...ratio(isWhole ? calls : null, ({ cpuUs }) => 1 / cpuUs),
    }),
    judge({
      what: "start from a kept template, with / without",
      bound: "at most",
      target: 1.5,
      unit: "ratio",
      ...ratio(isWhole ? keptTemplate : null, cpuOf),
    }),
    judge({
      what: "first start, with / without",
      bound: "at most",
      target: 1.4,
      unit: "ratio",
      ...ratio(isWhole ? firstStart : null, cpuOf),
    }),
  ];
}

const cpuOf = ({ cpuMs }: StartFigures): number => cpuMs;

function ratio<T>(sides: Sides<T> | null, figure: (round: T) => number): Pick<Verdict, "value" | "spread"> {
  return divided(sides?.walls ?? [], sides?.plain ?? [], figure);
}
