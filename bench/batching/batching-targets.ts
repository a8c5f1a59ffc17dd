import { divided, judge, type Verdict } from "../targets.ts";
import { BEST_FIXED, type BatchingFigures, OVERLOAD } from "./batching.ts";
import { PEERS } from "./peers.ts";
import type { BatchingRound } from "./subjects.ts";

const callsPerSecond = (round: BatchingRound) => round.callsPerSecond;
const p95Us = (round: BatchingRound) => round.p95Us;

/** Batches are held against calls one by one, against fixed policies and against peers. */
export function judgeBatching(figures: BatchingFigures): Verdict[] {
  const { subjects, lone, paced, overload } = figures;
  const roundsOf = (id: string) => subjects.find((subject) => subject.id === id)?.rounds ?? [];
  const untuned = roundsOf("untuned");
  const most = (what: string, target: number, others: readonly BatchingRound[]) =>
    judge({ what, bound: "at least", target, unit: "ratio", ...divided(untuned, others, callsPerSecond) });
  return [
    most("calls/s at 64 connections: batched / not batched", 8, roundsOf("single")),
    most("untuned / the best fixed policy", 0.95, roundsOf(BEST_FIXED)),
    ...PEERS.map(({ id, name }) => most(`Millrace / ${name} at its best`, 1, roundsOf(id))),
    judge({
      what: "p50 of a lone caller: batched / not batched",
      bound: "at most",
      target: 1.05,
      unit: "ratio",
      ...divided(lone.untuned, lone.single, ({ p50Us }) => p50Us),
    }),
    ...PEERS.flatMap(({ id, name }) =>
      paced
        .filter(({ peer }) => peer === id)
        .map(({ share, ours, theirs }) =>
          judge({
            what: `p95 at ${share * 100} % of ${name}'s maximum: Millrace / ${name}`,
            bound: "at most",
            target: 1,
            unit: "ratio",
            ...divided(ours, theirs, p95Us),
          }),
        ),
    ),
    judge({
      what: `calls/s answered at ${Math.round(OVERLOAD * 100)} % of the maximum / the maximum`,
      bound: "at least",
      target: 0.95,
      unit: "ratio",
      ...divided(overload.beyond, overload.most, callsPerSecond),
    }),
  ];
}
