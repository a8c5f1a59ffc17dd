import { measureFreshSets } from "../fresh-sets.ts";
import { measureStream, type PartResult, type StreamSubjectResult } from "../stream.ts";
import type { Part } from "../stream-parts.ts";
import { measureSync, type SubjectResult, type SyncSettings } from "../sync.ts";
import { FRONTS, FRONT_NAMES, startFront, withOwner } from "./fronts.ts";

export type ClusterFigures = {
  readonly subjects: readonly SubjectResult[];
  readonly streams: readonly PartResult[];
};

/** Of 15: each takes some seconds. */
const STREAM_SHARE = 3;
const STREAM_MS = 2_000;

const PARTS: readonly (Omit<Part, "subjects"> & { readonly app: string })[] = [
  {
    id: "fast",
    title: "one fast generator",
    app: "tokens",
    streams: 1,
    perSecond: null,
    isGzip: false,
    rampMs: 0,
    isOnce: false,
    measureMs: 1_000,
  },
  {
    id: "rate",
    title: "200 streams × 50 messages/s",
    app: "ticks",
    streams: 200,
    perSecond: 50,
    isGzip: false,
    // A handshake for each.
    rampMs: 5_000,
    isOnce: false,
  },
];

/** Measures calls and streams of an app that another node has, beside the same through a bare pass-through. */
export async function measureCluster(settings: SyncSettings): Promise<ClusterFigures> {
  const subjects = await measureFreshSets(settings, measureCalls);
  const streams: PartResult[] = [];
  for (const part of PARTS) streams.push(await measurePart(part, Math.ceil(settings.rounds / STREAM_SHARE)));
  return { subjects, streams };
}

async function measureCalls(settings: SyncSettings): Promise<SubjectResult[]> {
  return await withOwner("hello", (owner) =>
    measureSync(
      FRONTS.map((id) => ({
        id,
        name: FRONT_NAMES[id],
        expects: '"hello ada"',
        start: () => startFront(id, owner),
      })),
      settings,
    ),
  );
}

/** Two sets of fresh services. */
async function measurePart({ app, ...shape }: (typeof PARTS)[number], rounds: number): Promise<PartResult> {
  let all: PartResult | null = null;
  for (const share of [Math.ceil(rounds / 2), Math.floor(rounds / 2)]) {
    if (share === 0) continue;
    const set = await withOwner(app, async (owner) => {
      const subjects = FRONTS.map((id) => ({
        id,
        name: FRONT_NAMES[id],
        start: () => startFront(id, owner),
      }));
      const part = { ...shape, subjects };
      const settings = { rounds: share, measureMs: STREAM_MS, profileDir: undefined };
      const [result = { part, subjects: [] }] = await measureStream([part], settings);
      return result;
    });
    all = { ...set, subjects: set.subjects.map((subject, at) => joined(all?.subjects[at], subject)) };
  }
  if (!all) throw new Error("no round was asked for");
  return all;
}

function joined(before: StreamSubjectResult | undefined, after: StreamSubjectResult): StreamSubjectResult {
  if (before?.status !== "measured") return before ?? after;
  return { ...after, rounds: [...before.rounds, ...after.rounds] };
}
