import { expect } from "vitest";
import { judgeCluster } from "../../../bench/cluster/cluster-targets.ts";
import type { ClusterFigures } from "../../../bench/cluster/cluster.ts";
import type { Front } from "../../../bench/cluster/fronts.ts";
import { verifies } from "../../verifies.ts";

/** Of a pass-through 100 everywhere, and of another node what is given. */
function figures(p50Us: number, cpuUs: number, messagesPerSecond: number): ClusterFigures {
  const both = <T>(of: (isNode: boolean) => T) =>
    (["passthrough", "millrace"] satisfies Front[]).map((id) => ({
      id,
      name: id,
      note: null,
      status: "measured" as const,
      problem: null,
      rounds: of(id === "millrace"),
    }));
  const calls = both((isNode) => {
    const round = { p50Us: isNode ? p50Us : 100, cpuUs: isNode ? cpuUs : 100 };
    return { 1: [round], 32: [round] };
  });
  const streams = both((isNode) => {
    const rate = isNode ? messagesPerSecond : 100;
    return [{ messagesPerSecond: rate, messages: rate, gatewayCpuMs: 10 }];
  });
  return {
    subjects: calls,
    streams: [{ part: { title: "streams" }, subjects: streams }],
  } as unknown as ClusterFigures;
}

verifies("bench.verdicts", "what passes through another node is held against its targets", () => {
  const met = (...given: Parameters<typeof figures>) =>
    judgeCluster(figures(...given)).map(({ isMet }) => isMet);
  expect(met(130, 130, 80)).toEqual([true, true, true, true, true]);
  expect(met(131, 130, 80)).toEqual([false, true, true, true, true]);
  expect(met(130, 131, 79)).toEqual([true, false, false, false, false]);
});
