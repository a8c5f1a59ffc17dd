import type { DatabaseKind } from "../async-database.ts";
import { type BacklogFigures, measureBacklog } from "./backlog.ts";
import { type BesidePeers, measureBesidePeers } from "./beside-peers.ts";
import { type LinesFigures, measureLines, NO_BATCHES } from "./lines.ts";
import { measureBefore, measureWishes, type Pace } from "./own-pace.ts";

/** What may be left out. */
export const QUEUE_PART_IDS = ["wishes", "peers", "backlog", "lines"] as const;
type QueuePartId = (typeof QUEUE_PART_IDS)[number];

export type QueueSettings = {
  readonly databases: readonly DatabaseKind[];
  readonly parts: readonly QueuePartId[];
  /** Another checkout that this one is held against; then nothing else is measured. */
  readonly against: string | undefined;
  readonly rounds: number;
  readonly measureMs: number;
  /** How many runs one caller queues, and the lines of the batch. */
  readonly many: number;
  /** Runs of each batch beside the peers. */
  readonly batch: number;
  /** Where the CPU profiles of the service and the peers go. */
  readonly profileDir: string | undefined;
};

export type QueueFigures = {
  readonly before: readonly Pace[];
  readonly wishes: readonly Pace[];
  readonly peers: BesidePeers | null;
  readonly backlogs: readonly BacklogFigures[];
  readonly lines: readonly LinesFigures[];
  readonly problem: string | null;
};

/** Measures the parts one after the other, each with services and databases of its own. */
export async function measureQueue(settings: QueueSettings): Promise<QueueFigures> {
  const { databases, against, many, parts } = settings;
  const before: Pace[] = [];
  const wishes: Pace[] = [];
  const backlogs: BacklogFigures[] = [];
  const lines: LinesFigures[] = [];
  let peers: BesidePeers | null = null;
  let problem: string | null = null;
  const has = (part: QueuePartId) => against === undefined && parts.includes(part);
  try {
    for (const kind of databases) {
      if (against !== undefined) before.push(await measureBefore(kind, against, settings));
      if (has("wishes")) wishes.push(await measureWishes(kind, settings));
    }
    if (has("peers") && databases.includes("postgres")) peers = await measureBesidePeers(settings);
    for (const kind of databases) {
      if (has("backlog")) backlogs.push(await measureBacklog(kind, many));
      if (has("lines")) lines.push(await measureLines(kind, many));
    }
  } catch (error) {
    problem = (error as Error).message;
  }
  return { before, wishes, peers, backlogs, lines, problem };
}

/** Whether all that was measured is sound. */
export function isQueueSound({ before, wishes, peers, backlogs, lines, problem }: QueueFigures): boolean {
  const subjects = [...before, ...wishes].flatMap((pace) => pace.subjects);
  const beside = peers === null ? [] : [...peers.single, ...peers.batched];
  const problems = [...backlogs, ...lines].map((figures) => figures.problem);
  return (
    problem === null &&
    [...subjects, ...beside].every(({ status }) => status !== "failed") &&
    problems.every((each) => each === null || each === NO_BATCHES)
  );
}
