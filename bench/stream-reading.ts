import { connect, type Socket } from "node:net";
import { createGunzip, type Gunzip } from "node:zlib";
import { type Clock, systemClock, type Timer } from "../src/kit/clock.ts";
import { Histogram } from "./histogram.ts";
import { cpuMsOf, machineCpuMs, residentBytesOf } from "./proc.ts";
import { SseCounter } from "./sse-counter.ts";
import type { StreamJob, StreamResult } from "./stream-job.ts";
import { StreamParser } from "./stream-parser.ts";

/** Connections under way at once: more would only wait in the server's backlog. */
const OPENING = 100;
/** A source address has some 28,000 ports, less those of connections that ended in the last minute. */
const STREAMS_PER_ADDRESS = 5_000;
const READ_BYTES = 64 * 1024;
/** For setting the clock: some turns of a millisecond. */
const CLOCK_MS = 5;

// One buffer for all connections: a piece is parsed before the next is read, into it again.
const received = Buffer.allocUnsafe(READ_BYTES);

/** Microseconds since the epoch; `Date.now` alone knows only milliseconds. */
function epochClock(): () => number {
  let offsetMs = 0;
  const until = performance.now() + CLOCK_MS;
  // Read in turn, the first is late by up to a millisecond or a pause: the largest difference is the true one.
  while (performance.now() < until) offsetMs = Math.max(offsetMs, Date.now() - performance.now());
  return () => (offsetMs + performance.now()) * 1000;
}

function localAddressOf(index: number): { localAddress?: string } {
  const turn = Math.floor(index / STREAMS_PER_ADDRESS);
  // The first is left to the system, which can use a port again that a bound address cannot.
  return turn === 0 ? {} : { localAddress: `127.0.0.${1 + turn}` };
}

/** Takes one stream's gzip; a piece is decoded before the next of a slow stream arrives. */
function decodeInto(counter: SseCounter, fail: (problem: string) => void): Gunzip {
  const gunzip = createGunzip();
  gunzip.on("data", (piece: Buffer) => counter.feed(piece, 0, piece.length));
  gunzip.on("error", (error) => fail(`gzip: ${error.message}`));
  return gunzip;
}

/** Many streams that are read at once: one job under way. */
export class StreamReading {
  readonly #job: StreamJob;
  readonly #request: Buffer;
  readonly #epochUs = epochClock();
  readonly #startUs = this.#epochUs();
  readonly #delays = new Histogram();
  readonly #statuses: Record<number, number> = {};
  readonly #errors: Record<string, number> = {};
  readonly #sockets: Socket[] = [];
  readonly #counters: SseCounter[] = [];
  readonly #done = Promise.withResolvers<StreamResult>();
  readonly #clock: Pick<Clock, "after">;
  readonly #timers: Timer[] = [];
  #started = 0;
  #openCount = 0;
  #endedCount = 0;
  #messagesInWindow = 0;
  #lastUs = 0;
  #cpuBefore: number[] = [];
  #ownCpuBefore = process.cpuUsage();
  #machineCpuBefore = 0;
  #windowAt = 0;
  #atEnd: Pick<StreamResult, "cpuMs" | "residentBytes" | "readerCpuMs" | "othersCores"> | null = null;
  #isInWindow = false;

  constructor(job: StreamJob, clock: Pick<Clock, "after"> = systemClock) {
    this.#job = job;
    this.#clock = clock;
    this.#request = Buffer.from(job.request, "latin1");
  }

  /** Messages of the decoded streams so far. */
  get messageCount(): number {
    return this.#counters.reduce((sum, counter) => sum + counter.messages, 0);
  }

  /** Streams that are over, well or not. */
  get endedCount(): number {
    return this.#endedCount;
  }

  run(): Promise<StreamResult> {
    const { window, streams, endWithinMs } = this.#job;
    if (window === null) this.#beginWindow();
    else {
      this.#after(window.fromMs, () => {
        const missing = streams - this.#openCount;
        if (missing > 0) this.#fail(`stream not open when the window began`, missing);
        this.#beginWindow();
      });
      this.#after(window.toMs, () => {
        if (this.#endedCount > 0) this.#fail("stream ended before the window did", this.#endedCount);
        this.#endWindow();
      });
    }
    this.#after((window?.toMs ?? 0) + endWithinMs, () => {
      this.#fail("stream without an end", streams - this.#endedCount);
      this.#finish();
    });
    while (this.#started < Math.min(OPENING, streams)) this.#open();
    return this.#done.promise;
  }

  #open(): void {
    const index = this.#started++;
    const { host, port, decodeEvery } = this.#job;
    let arrivedUs = 0;
    let isEnded = false;
    const counter = new SseCounter((sentAtUs) => this.#onMessage(arrivedUs, sentAtUs));
    const isDecoded = index % decodeEvery === 0;
    if (isDecoded) this.#counters.push(counter);
    let gunzip: Gunzip | null = null;
    const parser = new StreamParser((bytes, from, to) => {
      if (!isDecoded) return;
      if (!parser.isGzip) {
        counter.feed(bytes, from, to);
        return;
      }
      gunzip ??= decodeInto(counter, end);
      // A copy: the buffer is read into again before the other thread has decoded it.
      gunzip.write(Buffer.from(bytes.subarray(from, to)));
    });
    const end = (problem: string | null) => {
      if (isEnded) return;
      isEnded = true;
      if (problem !== null) this.#fail(problem, 1);
      socket.destroy();
      this.#endedCount += 1;
      if (this.#endedCount === this.#job.streams) this.#finish();
    };
    const socket = connect({
      host,
      port,
      ...localAddressOf(index),
      noDelay: true,
      onread: {
        buffer: received,
        callback: (count, bytes) => {
          arrivedUs = this.#epochUs();
          const { status } = parser;
          parser.feed(bytes, count);
          if (status === 0 && parser.status !== 0) this.#onHead(parser.status);
          if (parser.state === "done") end(null);
          else if (parser.state === "broken") end("an answer that is not in chunks");
          return true;
        },
      },
    });
    socket.on("connect", () => socket.write(this.#request));
    socket.on("error", (error: NodeJS.ErrnoException) => end(`connection: ${error.code ?? error.message}`));
    socket.on("close", () => end("connection closed before the stream's end"));
    this.#sockets.push(socket);
  }

  #onHead(status: number): void {
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    this.#openCount += 1;
    if (this.#started < this.#job.streams) this.#open();
  }

  #onMessage(arrivedUs: number, sentAtUs: number): void {
    if (!this.#isInWindow) return;
    this.#lastUs = arrivedUs;
    this.#messagesInWindow += 1;
    if (this.#job.window !== null) this.#delays.add(arrivedUs - sentAtUs);
  }

  #beginWindow(): void {
    this.#isInWindow = true;
    this.#cpuBefore = this.#job.watch.map(cpuMsOf);
    this.#ownCpuBefore = process.cpuUsage();
    this.#machineCpuBefore = machineCpuMs();
    this.#windowAt = performance.now();
  }

  #endWindow(): void {
    if (this.#atEnd !== null) return;
    this.#isInWindow = false;
    const own = process.cpuUsage(this.#ownCpuBefore);
    const readerCpuMs = (own.user + own.system) / 1000;
    const cpuMs = this.#job.watch.map((pid, i) => cpuMsOf(pid) - (this.#cpuBefore[i] ?? 0));
    const ours = cpuMs.reduce((sum, ms) => sum + ms, readerCpuMs);
    const others = machineCpuMs() - this.#machineCpuBefore - ours;
    this.#atEnd = {
      cpuMs,
      residentBytes: this.#job.watch.map(residentBytesOf),
      readerCpuMs,
      othersCores: Math.max(0, others / (performance.now() - this.#windowAt)),
    };
  }

  #finish(): void {
    for (const timer of this.#timers) timer.cancel();
    for (const socket of this.#sockets) socket.destroy();
    this.#endWindow();
    const { window, streams } = this.#job;
    const seconds =
      window === null ? (this.#lastUs - this.#startUs) / 1e6 : (window.toMs - window.fromMs) / 1000;
    const messages = this.#messagesInWindow * (streams / Math.max(1, this.#counters.length));
    this.#done.resolve({
      messages,
      messagesPerSecond: seconds > 0 ? messages / seconds : 0,
      p50Us: this.#delays.quantileUs(0.5),
      p99Us: this.#delays.quantileUs(0.99),
      messagesEver: this.messageCount,
      ...this.#atEnd!,
      statuses: this.#statuses,
      errors: this.#errors,
    });
  }

  #fail(problem: string, count: number): void {
    if (count > 0) this.#errors[problem] = (this.#errors[problem] ?? 0) + count;
  }

  #after(ms: number, act: () => void): void {
    const elapsedMs = (this.#epochUs() - this.#startUs) / 1000;
    this.#timers.push(this.#clock.after(ms - elapsedMs, act));
  }
}
