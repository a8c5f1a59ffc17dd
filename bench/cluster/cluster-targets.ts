import type { StreamRound } from "../stream-client.ts";
import type { PartResult } from "../stream.ts";
import { divided, judge, ratio, type Verdict } from "../targets.ts";
import type { ClusterFigures } from "./cluster.ts";
import type { Front } from "./fronts.ts";

const P50 = { bound: "at most", target: 1.3, unit: "ratio" } as const;
const STREAMS = { bound: "at least", target: 0.8, unit: "ratio" } as const;

/** What `npm run bench cluster` is for, by the clock and by processor time of the front. */
export function judgeCluster({ subjects, streams }: ClusterFigures): Verdict[] {
  const find = (id: Front) => subjects.find((subject) => subject.id === id);
  const [node, bare] = [find("millrace"), find("passthrough")];
  return [
    judge({ what: `${OF}p50 at 1 connection`, ...P50, ...ratio(node, bare, 1, ({ p50Us }) => p50Us) }),
    judge({ what: `${OF}CPU of a call at 1`, ...P50, ...ratio(node, bare, 1, ({ cpuUs }) => cpuUs) }),
    judge({ what: `${OF}CPU of a call at 32`, ...P50, ...ratio(node, bare, 32, ({ cpuUs }) => cpuUs) }),
    ...streams.flatMap((part) => judgeStream(part)),
  ];
}

const OF = "another node / pass-through, ";

function judgeStream({ part: { title }, subjects }: PartResult): Verdict[] {
  const rounds = (id: Front) =>
    subjects.find((subject) => subject.id === id && subject.status === "measured")?.rounds ?? [];
  const compare = (figure: (round: StreamRound) => number) =>
    divided(rounds("millrace"), rounds("passthrough"), figure);
  return [
    judge({
      what: `${OF}messages/s: ${title}`,
      ...STREAMS,
      ...compare(({ messagesPerSecond }) => messagesPerSecond),
    }),
    judge({
      what: `${OF}messages per CPU second: ${title}`,
      ...STREAMS,
      ...compare(({ messages, gatewayCpuMs }) => messages / gatewayCpuMs),
    }),
  ];
}
