import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Peer } from "../../src/nodes/peer.ts";
import { startChild, withOpenFiles } from "../processes.ts";
import type { Child } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";
import { measureStream } from "../stream.ts";
import type { PartResult } from "../stream.ts";
import type { Part } from "../stream-parts.ts";
import type { Subject, Running } from "../subject.ts";
import { measureSync } from "../sync.ts";
import type { SubjectResult, SyncSettings } from "../sync.ts";
import { judge, medianBy, ratio } from "../targets.ts";
import type { Verdict } from "../targets.ts";
import { newSecret } from "./bench-node.ts";

/** What stands in front of the service that has the app. */
const FRONTS = ["passthrough", "millrace"] as const;
type Front = (typeof FRONTS)[number];

const NAMES: Readonly<Record<Front, string>> = {
  passthrough: "bare pass-through to the owner",
  millrace: "another node",
};
const APPS = join(import.meta.dirname, "../apps");
const STREAM_ROUNDS = 3;

export type ClusterFigures = {
  readonly subjects: readonly SubjectResult[];
  readonly streams: readonly PartResult[];
};

/** Measures calls and streams of an app that another node has, beside the same through a bare pass-through. */
export async function measureCluster(settings: SyncSettings): Promise<ClusterFigures> {
  const calls = FRONTS.map((id): Subject => ({
    id,
    name: NAMES[id],
    expects: '"hello ada"',
    start: () => startFront(id, "hello"),
  }));
  const subjects = await measureSync(calls, settings);
  const rounds = Math.min(settings.rounds, STREAM_ROUNDS);
  const streams = await measureStream(PARTS, { rounds, measureMs: 2_000, profileDir: undefined });
  return { subjects, streams };
}

/** What `npm run bench cluster` is for. */
export function judgeCluster({ subjects, streams }: ClusterFigures): Verdict[] {
  const find = (id: Front) => subjects.find((subject) => subject.id === id);
  const [millrace, floor] = [find("millrace"), find("passthrough")];
  return [
    judge({
      what: "another node / pass-through, p50 at 1 connection",
      bound: "at most",
      target: 1.3,
      unit: "ratio",
      ...ratio(millrace, floor, 1, (round) => round.p50Us),
    }),
    ...streams.map((part) => judgeStream(part)),
  ];
}

function judgeStream({ part, subjects }: PartResult): Verdict {
  const rates = (id: Front) =>
    subjects.find((subject) => subject.id === id)?.rounds.map((round) => round.messagesPerSecond) ?? [];
  const floor = rates("passthrough");
  const ratios = rates("millrace").flatMap((rate, at) => (floor[at] ? rate / floor[at] : []));
  const value = medianBy(ratios, (each) => each);
  return judge({
    what: `another node / pass-through, messages/s: ${part.title}`,
    bound: "at least",
    target: 0.8,
    unit: "ratio",
    value,
    spread: value === null ? null : [Math.min(...ratios), Math.max(...ratios)],
  });
}

/** Starts the owner of one of the bench's apps, and something in front of it. */
async function startFront(front: Front, app: string): Promise<Running> {
  const secret = await newSecret(randomBytes(32));
  const scratch = makeScratchDir();
  const ownerArgs = [
    join(import.meta.dirname, "owner-child.ts"),
    secret,
    join(scratch, "owner"),
    join(APPS, app),
  ];
  const owner = startChild(...withOpenFiles(process.execPath, ownerArgs));
  const { url, token, peer } = JSON.parse(await owner.nextLine()) as {
    url: string;
    token: string;
    peer: Peer;
  };
  const child =
    front === "millrace" ? startNode(secret, join(scratch, "front"), peer) : startPassThrough(url);
  const { url: base } = JSON.parse(await child.nextLine()) as { url: string };
  return {
    url: `${base}${new URL(url).pathname}`,
    headers: { Authorization: `Bearer ${token}` },
    pid: child.pid,
    stop: async () => {
      await child.stop();
      await owner.stop();
    },
  };
}

function startNode(secret: string, dataDir: string, peer: Peer): Child {
  const script = join(import.meta.dirname, "front-child.ts");
  return startChild(...withOpenFiles(process.execPath, [script, secret, dataDir, JSON.stringify(peer)]));
}

/** It starts what it stands in front of; that is up already, so it gets a program that says where. */
function startPassThrough(url: string): Child {
  const tell = `console.log(JSON.stringify({ url: ${JSON.stringify(url)} })); process.stdin.resume();`;
  const script = join(import.meta.dirname, "../floor/pass-through.ts");
  return startChild(...withOpenFiles(process.execPath, [script, process.execPath, "-e", tell]));
}

const subjectsOf = (app: string): Part["subjects"] =>
  FRONTS.map((id) => ({ id, name: NAMES[id], start: () => startFront(id, app) }));

const PARTS: readonly Part[] = [
  {
    id: "fast",
    title: "one fast generator",
    subjects: subjectsOf("tokens"),
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
    subjects: subjectsOf("ticks"),
    streams: 200,
    perSecond: 50,
    isGzip: false,
    rampMs: 5_000,
    isOnce: false,
  },
];
