import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Piece } from "../../../../src/gateway/event-stream.ts";
import { FAR_END, Feed, type FeedReader } from "../../../../src/gateway/events/feed.ts";
import { TimeSlicer } from "../../../../src/kit/event-loop.ts";
import type { QueuePlace, Run } from "../../../../src/model/run.ts";
import type { LiveRun } from "../../../../src/runs/live-run.ts";
import { ProgressKeeper } from "../../../../src/runs/progress.ts";
import type { KnownRun } from "../../../../src/runs/lookup.ts";
import type { PartReader, PartWriter } from "../../../../src/runs/transcript-parts.ts";
import { LiveTranscript, plainTranscript } from "../../../../src/runs/transcript.ts";
import type { Store } from "../../../../src/store/store.ts";
import { HandClock } from "../../../support/clocks.ts";
import { NO_QUEUE_WATCH } from "../../../support/no-queue.ts";
import { sampleRun } from "../../../support/sample-run.ts";
import { verifies } from "../../../verifies.ts";

const text = (of: string) => ({ isText: true, bytes: Buffer.from(of) });

/** A reader that keeps what it gets, as long as it is not full. */
class PlayedReader implements FeedReader {
  after: number;
  noteNumber = 0;
  isFull = false;
  readonly pieces: Piece[] = [];
  ended: "properly" | "broken off" | "failed" | null = null;

  constructor(after = 0) {
    this.after = after;
  }

  get text(): string {
    return this.pieces.map((piece) => piece.text.toString()).join("");
  }

  send(piece: Piece): boolean {
    this.pieces.push(piece);
    return !this.isFull;
  }

  end(last: Piece, isBrokenOff: boolean): void {
    this.pieces.push(last);
    this.ended = isBrokenOff ? "broken off" : "properly";
  }

  fail(): void {
    this.ended = "failed";
  }
}

/** A run under way that a test plays, and its feed. */
class PlayedRun {
  readonly clock = new HandClock();
  readonly transcript = new LiveTranscript({
    key: { appNumber: 1, id: "run" },
    firstEvent: 1,
    store: {} as Store,
    clock: null,
    writer: {} as PartWriter,
    reader: {} as PartReader,
    maxBytes: 1e6,
    isKept: false,
  });
  reads = 0;
  looks = 0;
  isEmpty = false;
  readonly progress = new ProgressKeeper(this.clock, () => null);
  readonly live = { keepProgress: () => this.progress } as LiveRun;
  /** What looking again finds. */
  readonly later = Promise.withResolvers<KnownRun | null>();
  readonly feed: Feed;

  /** Tells a place in the queue, while the feed watches it. */
  tellPlace: ((place: QueuePlace | null) => void) | null = null;

  constructor(state: "queued" | "running" = "running") {
    const read = this.transcript.read.bind(this.transcript);
    this.transcript.read = async (after, signal) => {
      this.reads += 1;
      return await read(after, signal);
    };
    this.feed = new Feed(this.known({ state }, state === "queued" ? null : this.live), {
      lookup: {
        findLater: async () => {
          this.looks += 1;
          return await this.later.promise;
        },
      },
      queueWatch: { watch: (run, tell) => this.watch(run, tell) },
      turns: new TimeSlicer(this.clock),
      clock: this.clock,
      app: { projectId: "p-one", name: "app" },
      sse: "auto",
      onEmpty: () => (this.isEmpty = true),
    });
  }

  watch(_: unknown, tell: (place: QueuePlace | null) => void): () => void {
    this.tellPlace = tell;
    return () => (this.tellPlace = null);
  }

  known(run: Partial<Run>, live: LiveRun | null, isKept = true): KnownRun {
    const { transcript } = this;
    return { run: sampleRun(run), live, payload: null, transcript, isKept };
  }

  async join(count: number, after = 0): Promise<PlayedReader[]> {
    const readers = Array.from({ length: count }, () => new PlayedReader(after));
    for (const reader of readers) this.feed.join(reader);
    await passed();
    return readers;
  }

  async yields(...texts: string[]): Promise<void> {
    for (const each of texts) this.transcript.add(text(each));
    await passed();
  }

  async reports(fraction: number): Promise<void> {
    this.progress.report({ fraction, message: null });
    await passed();
  }

  async ends(known: KnownRun | null): Promise<void> {
    this.transcript.end();
    this.later.resolve(known);
    await passed();
  }
}

/** What was asked for is read, and readers have had their turns. */
async function passed(): Promise<void> {
  for (let turns = 0; turns < 4; turns++) await setImmediate();
}

const message = (number: number, data: string): string => `id: ${number}\ndata: ${data}\n\n`;

const report = (fraction: number): string =>
  `event: progress\ndata: {"fraction":${fraction},"message":null,"at":"2026-01-15T12:00:00.000Z"}\n\n`;

describe("progress of a run", () => {
  verifies("progress.events", "comes without a number to all that wait, the newest of many", async () => {
    const played = new PlayedRun();
    const readers = await played.join(3);
    await played.reports(0.1);
    for (const fraction of [0.2, 0.3, 0.4]) await played.reports(fraction);
    expect(new Set(readers.map((reader) => reader.text))).toEqual(new Set([report(0.1)]));
    played.clock.advance(250);
    await passed();
    for (const { text: seen } of readers)
      expect(seen.match(/"fraction":[\d.]+/g)).toEqual(['"fraction":0.1', '"fraction":0.4']);
    await played.yields("a");
    expect(readers[0]?.text.endsWith(message(1, "a"))).toBe(true);
  });

  verifies("progress.events", "comes first to a reader that joins later, and once", async () => {
    const played = new PlayedRun();
    await played.join(1);
    await played.reports(0.5);
    const [late] = await played.join(1);
    expect(late?.text).toBe(report(0.5));
    await played.yields("a");
    expect(late?.text).toBe(report(0.5) + message(1, "a"));
  });

  test("reaches a full reader once it has room", async () => {
    const played = new PlayedRun();
    const [reader] = await played.join(1);
    reader!.isFull = true;
    await played.yields("a");
    await played.reports(0.5);
    expect(reader!.text).toBe(message(1, "a"));
    reader!.isFull = false;
    played.feed.resume(reader!);
    await passed();
    expect(reader!.text).toBe(message(1, "a") + report(0.5));
  });
});

const placed = (position: number): QueuePlace => ({
  position,
  expectedStartAt: Date.UTC(2026, 0, 15, 12),
  phase: "queued",
});
const queued = (position: number): string =>
  `event: queue\ndata: {"position":${position},"expectedStartAt":"2026-01-15T12:00:00.000Z","phase":"queued"}\n\n`;

describe("the place in the queue", () => {
  verifies("queue.events", "comes without a number until the run starts, to later readers too", async () => {
    const played = new PlayedRun("queued");
    const [first] = await played.join(1);
    played.tellPlace?.(placed(3));
    await passed();
    const [second] = await played.join(1);
    played.tellPlace?.(placed(2));
    await passed();
    expect([first!.text, second!.text]).toEqual(Array(2).fill(queued(3) + queued(2)));
    await played.ends(played.known({ state: "running" }, played.live));
    expect(played.tellPlace).toBeNull();
    const [third] = await played.join(1);
    expect(third!.text).toBe("");
  });

  verifies("queue.events", "is no longer watched once all readers have left", async () => {
    const played = new PlayedRun("queued");
    const [reader] = await played.join(1);
    expect(played.tellPlace).not.toBeNull();
    played.feed.leave(reader!);
    expect(played.tellPlace).toBeNull();
  });
});

describe("readers of one run", () => {
  verifies("runs.events.shared", "get the same bytes, read and encoded once", async () => {
    const played = new PlayedRun();
    const readers = await played.join(1_000);
    expect(played.reads).toBe(1);
    await played.yields("a", "b");
    await played.yields("c");
    expect(new Set(readers.map((reader) => reader.text))).toEqual(
      new Set([message(1, "a") + message(2, "b") + message(3, "c")]),
    );
    expect(new Set(readers.flatMap(({ pieces }) => pieces)).size).toBe(2);
    const [piece] = readers[0]?.pieces ?? [];
    expect(piece?.blocks).toBe(piece?.blocks);
    // One for each piece, and one that waits for the next.
    expect(played.reads).toBe(3);
  });

  verifies("runs.events.shared", "learn by one look that the run has ended", async () => {
    const played = new PlayedRun();
    const readers = await played.join(100);
    await played.yields("a");
    await played.ends(played.known({ state: "success" }, null));
    expect(played.looks).toBe(1);
    expect(new Set(readers.map(({ ended }) => ended))).toEqual(new Set(["properly"]));
    expect(new Set(readers.map(({ pieces }) => pieces.at(-1))).size).toBe(1);
    expect(readers[0]?.text).toMatch(/^id: 1\ndata: a\n\nevent: end\nid: 2\ndata: \{"id":/);
    expect([played.feed.size, played.isEmpty]).toEqual([0, true]);
  });

  verifies("runs.events.turns", "that come to their turn late get all that has gathered", async () => {
    const played = new PlayedRun();
    const [reader] = await played.join(1);
    played.transcript.add(text("a"));
    // The read is done, the turn has not come.
    for (let ticks = 0; ticks < 10; ticks++) await Promise.resolve();
    await played.yields("b", "c");
    expect(reader?.pieces.length).toBe(1);
    expect(reader?.text).toBe(message(1, "a") + message(2, "b") + message(3, "c"));
  });

  test("that take no more hold up nobody, and go on where they were", async () => {
    const played = new PlayedRun();
    const [slow, quick] = await played.join(2);
    slow!.isFull = true;
    for (const each of ["a", "b", "c"]) await played.yields(each);
    expect([slow?.pieces.length, quick?.pieces.length]).toEqual([1, 3]);
    slow!.isFull = false;
    played.feed.resume(slow!);
    await passed();
    expect([slow?.pieces.length, slow?.text]).toEqual([2, quick?.text]);
    // Told twice, it is at one place all the same.
    played.feed.resume(slow!);
    await played.yields("d");
    expect(slow?.text).toBe(quick?.text);
  });

  test("get a comment when nothing has come for 15 s, and then what comes", async () => {
    const played = new PlayedRun();
    const readers = await played.join(3);
    played.clock.advance(14_999);
    await passed();
    expect(readers.map((reader) => reader.text)).toEqual(["", "", ""]);
    played.clock.advance(1);
    await passed();
    await played.yields("a");
    played.clock.advance(15_000);
    await passed();
    const all = `: \n\n${message(1, "a")}: \n\n`;
    expect(readers.map((reader) => reader.text)).toEqual([all, all, all]);
  });

  test("from different places get what each lacks", async () => {
    const played = new PlayedRun();
    await played.yields("a", "b", "c");
    const readers = (await Promise.all([0, 1, 3].map((after) => played.join(2, after)))).flat();
    expect(readers.map((reader) => reader.text)).toEqual(
      [[1, 2, 3], [2, 3], []].flatMap((numbers) => {
        const got = numbers.map((number) => message(number, "abc"[number - 1] ?? "")).join("");
        return [got, got];
      }),
    );
    await played.yields("d");
    expect(readers.map(({ after }) => after)).toEqual([4, 4, 4, 4, 4, 4]);
  });
});

describe("a feed", () => {
  test("ends when its last reader leaves, wherever that is", async () => {
    const played = new PlayedRun();
    const [waiting, full] = await played.join(2);
    full!.isFull = true;
    await played.yields("a");
    played.feed.leave(waiting!);
    played.feed.leave(waiting!);
    expect([played.feed.size, played.isEmpty]).toEqual([1, false]);
    played.feed.leave(full!);
    expect([played.feed.size, played.isEmpty, played.clock.pending]).toEqual([0, true, 0]);
  });

  test("of a run that is gone breaks off", async () => {
    const played = new PlayedRun();
    const [reader] = await played.join(1);
    await played.ends(null);
    expect([reader?.ended, reader?.text]).toEqual(["broken off", ""]);
  });

  test("loses a reader that cannot be written to, and no other", async () => {
    const played = new PlayedRun();
    const [broken, other] = await played.join(2);
    broken!.send = () => {
      throw new Error("a bug");
    };
    for (const each of ["a", "b"]) await played.yields(each);
    expect([broken?.ended, other?.text]).toEqual(["failed", message(1, "a") + message(2, "b")]);
    expect(played.feed.size).toBe(1);
  });

  test("that cannot be read fails those who wait, and the next reader tries again", async () => {
    const played = new PlayedRun();
    const { transcript } = played;
    const [full] = await played.join(1);
    full!.isFull = true;
    await played.yields("a");
    const read = transcript.read.bind(transcript);
    transcript.read = async () => await Promise.reject(new Error("the disk is away"));
    const failed = await played.join(2);
    transcript.read = read;
    const [reader] = await played.join(1);
    expect([failed.map(({ ended }) => ended), reader?.text]).toEqual([["failed", "failed"], message(1, "a")]);
  });
});

describe("the end of a run", () => {
  const RESULT = plainTranscript(text("1"));
  const ended = async (after: number, known: Partial<KnownRun>, run: Partial<Run> = {}) => {
    const played = new PlayedRun();
    await played.join(1);
    const first = { ...played.known({ state: "success", ...run }, null), transcript: RESULT, ...known };
    const feed = new Feed(first, {
      lookup: { findLater: () => Promise.resolve(null) },
      queueWatch: NO_QUEUE_WATCH,
      turns: new TimeSlicer(played.clock),
      clock: played.clock,
      app: { projectId: "p-one", name: "app" },
      sse: "auto",
      onEmpty: () => {},
    });
    const reader = new PlayedReader(after);
    feed.join(reader);
    await passed();
    const [, number] = /event: end\nid: (\d+)\n/.exec(reader.text) ?? [];
    return { isTruncated: reader.text.includes("event: truncated\n"), number: Number(number) };
  };

  verifies("runs.events.end-number", "has a number that no lost chunk can have", async () => {
    const whole = { isTruncated: false, number: 2 };
    const far = { isTruncated: false, number: FAR_END };
    for (const after of [0, 1]) {
      expect(await ended(after, {})).toEqual(whole);
      expect(await ended(after, {}, { state: "failure", errorCode: "interrupted" })).toEqual(far);
      expect(await ended(after, {}, { attempt: 2 })).toEqual(far);
      expect(await ended(after, {}, { interruptions: 1 })).toEqual(far);
    }
    const gone = { isKept: false, transcript: plainTranscript(null) };
    for (const after of [0, 1, 2]) expect(await ended(after, gone)).toEqual({ ...far, isTruncated: true });
    for (const after of [2, 3]) expect(await ended(after, {})).toEqual({ ...far, isTruncated: true });
  });

  test("follows on a run that nothing is stored of, for those who were there", async () => {
    const played = new PlayedRun();
    const [reader] = await played.join(1);
    await played.yields("a");
    await played.ends({
      ...played.known({ state: "success" }, null, false),
      transcript: plainTranscript(null),
    });
    expect(reader?.text).toMatch(new RegExp(`^id: 1\\ndata: a\\n\\nevent: end\\nid: ${FAR_END}\\n`));
  });

  test("of another attempt than was followed comes with the chunks of that one", async () => {
    const played = new PlayedRun();
    const [follower] = await played.join(1);
    await played.yields("a", "b");
    const another = { ...played.known({ state: "success", attempt: 2 }, null), transcript: RESULT };
    await played.ends(another);
    expect(follower?.text).toContain(
      'event: truncated\ndata: {"firstEvent":null,"lastEvent":1}\n\nevent: end\n',
    );
  });
});
