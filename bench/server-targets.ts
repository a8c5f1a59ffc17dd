import type { TrafficFigures } from "./server-traffic.ts";
import type { StreamSubjectResult } from "./stream.ts";
import type { SubjectResult } from "./sync.ts";
import { divided, judge, ratio, summary, type Verdict } from "./targets.ts";
import { DIRECTIONS } from "./transfer.ts";

/** What `npm run bench server` is for. */
export function judgeServer(calls: readonly SubjectResult[], traffic: TrafficFigures): Verdict[] {
  return [...judgeCalls(calls), ...judgeBodies(traffic), ...judgeSockets(traffic), judgeStreams(traffic)];
}

function judgeCalls(results: readonly SubjectResult[]): Verdict[] {
  const find = (id: SubjectResult["id"]) => results.find((result) => result.id === id);
  const [millrace, floor] = [find("millrace"), find("passthrough")];
  return [
    judge({
      what: "Millrace / pass-through, calls/s at 32 connections",
      bound: "at least",
      target: 0.75,
      unit: "ratio",
      ...ratio(millrace, floor, 32, (round) => round.callsPerSecond),
    }),
    judge({
      what: "Millrace / pass-through, p50 at 1 connection",
      bound: "at most",
      target: 1.3,
      unit: "ratio",
      ...ratio(millrace, floor, 1, (round) => round.p50Us),
    }),
  ];
}

function judgeBodies({ transfers }: TrafficFigures): Verdict[] {
  return DIRECTIONS.flatMap((direction) => {
    const { millrace, passthrough } = transfers[direction];
    return [
      judge({
        what: `Millrace / pass-through, bytes/s of a 100 MB ${direction}`,
        bound: "at least",
        target: 0.85,
        unit: "ratio",
        ...divided(millrace, passthrough, ({ bytesPerSecond }) => bytesPerSecond),
      }),
      judge({
        what: `Millrace, more memory during a 100 MB ${direction}`,
        bound: "at most",
        target: 32,
        unit: "MB",
        ...summary(millrace.map(({ growthBytes }) => growthBytes / 1e6)),
      }),
    ];
  });
}

function judgeSockets({ echoes, idle }: TrafficFigures): Verdict[] {
  return [
    judge({
      what: "Millrace / pass-through, frames/s echoed on 32 WebSockets",
      bound: "at least",
      target: 0.7,
      unit: "ratio",
      ...divided(echoes.millrace, echoes.passthrough, ({ framesPerSecond }) => framesPerSecond),
    }),
    judge({
      what: "Millrace, memory of the service per idle WebSocket",
      bound: "at most",
      target: 40,
      unit: "KB",
      ...summary(idle.millrace.map(({ residentBytes }) => residentBytes / 1000)),
    }),
  ];
}

function judgeStreams({ streams }: TrafficFigures): Verdict {
  const roundsOf = (id: StreamSubjectResult["id"]) =>
    streams?.subjects.find((subject) => subject.id === id && subject.status === "measured")?.rounds ?? [];
  return judge({
    what: "Millrace / pass-through, messages/s of 1,000 event streams",
    bound: "at least",
    target: 0.9,
    unit: "ratio",
    ...divided(roundsOf("millrace"), roundsOf("passthrough"), ({ messagesPerSecond }) => messagesPerSecond),
  });
}
