import { FASTAPI_STREAMS, floorOf, millraceOf, type StreamSubject } from "./stream-subjects.ts";

export const PART_IDS = ["fast", "rate", "delay", "gzip", "open"] as const;
export type PartId = (typeof PART_IDS)[number];

/** One question that `npm run bench stream` answers. */
export type Part = {
  readonly id: PartId;
  readonly title: string;
  readonly subjects: readonly StreamSubject[];
  readonly streams: number;
  /** Messages of each stream; null for as many as there can be. */
  readonly perSecond: number | null;
  readonly isGzip: boolean;
  /** From the first connection to the second message of each: all streams are open by then. */
  readonly rampMs: number;
  /** Repeated like the others, or done once: opening that many streams is most of it. */
  readonly isOnce: boolean;
  /** The window where it is not that of the settings. */
  readonly measureMs?: number;
  /** What a process must be allowed, where that is more than a file for each stream and some. */
  readonly openFiles?: number;
};

const OPEN_STREAMS = 10_000;
/** Of its connections the service lets one project hold this much. */
const PROJECT_SHARE = 0.8;
const thousand = { streams: 1_000, isGzip: false, rampMs: 1_200, isOnce: false };

/** All parts, in the order of the report. */
export const PARTS: readonly Part[] = [
  {
    id: "fast",
    title: "one fast generator",
    subjects: [floorOf("tokens"), millraceOf("tokens"), ...FASTAPI_STREAMS],
    streams: 1,
    perSecond: null,
    isGzip: false,
    rampMs: 0,
    isOnce: false,
    // Half a million messages are enough.
    measureMs: 1_000,
  },
  {
    ...thousand,
    id: "rate",
    title: "1,000 streams × 50 messages/s",
    subjects: [floorOf("ticks"), millraceOf("ticks")],
    perSecond: 50,
  },
  {
    ...thousand,
    id: "delay",
    title: "1,000 streams × 20 messages/s",
    subjects: [floorOf("ticks"), millraceOf("ticks")],
    perSecond: 20,
  },
  {
    ...thousand,
    id: "gzip",
    title: "1,000 streams × 20 messages/s, gzip",
    subjects: [floorOf("ticks"), millraceOf("ticks")],
    perSecond: 20,
    isGzip: true,
  },
  {
    id: "open",
    title: "10,000 streams × 1 message/2 s",
    subjects: [millraceOf("ticks-wide", { maxConnections: OPEN_STREAMS / PROJECT_SHARE + 500 })],
    streams: OPEN_STREAMS,
    perSecond: 0.5,
    isGzip: false,
    rampMs: 9_000,
    isOnce: true,
    // The service keeps files back for its own work and for its other listener.
    openFiles: 20_000,
    // Two messages of each stream.
    measureMs: 4_000,
  },
];
