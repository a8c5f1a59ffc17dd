import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { Histogram } from "../histogram.ts";
import { ResponseParser } from "../response-parser.ts";
import { type BatchingJob, type BatchingResult, dueTimes } from "./batching-job.ts";

// The load generator of `bench batching`, a process of its own as bench/load.ts. It takes one job per line on stdin,
// answers each with one line on stdout, and ends with its stdin.

/** How long after the end of the window an answer may still come. */
const LAST_ANSWER_MS = 5_000;
/** Calls that come at a rate wait for a connection when so many are in use; their time counts from when they were due. */
const MOST_CONNECTIONS = 2_000;
/** Timers are no finer. */
const TICK_MS = 1;
const READ_BYTES = 16_384;

/** A connection with at most one call in flight. */
type Line = { readonly socket: Socket; dueAt: number; isBusy: boolean; isConnected: boolean };

/** One job under way. */
class Load {
  readonly #job: BatchingJob;
  readonly #request: Buffer;
  readonly #latencies = new Histogram();
  readonly #statuses: Record<number, number> = {};
  readonly #errors: Record<string, number> = {};
  readonly #lines = new Set<Line>();
  readonly #free: Line[] = [];
  /** Due times of calls that have no connection yet. */
  readonly #unsent: number[] = [];
  readonly #startedAt = performance.now();
  readonly #fromMs: number;
  readonly #toMs: number;
  readonly #done = Promise.withResolvers<BatchingResult>();
  #inFlight = 0;
  #answered = 0;
  #timer: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(job: BatchingJob) {
    this.#job = job;
    this.#request = Buffer.from(job.request, "latin1");
    this.#fromMs = job.leadInMs;
    this.#toMs = job.leadInMs + job.measureMs;
  }

  run(): Promise<BatchingResult> {
    const { arrivals } = this.#job;
    if (arrivals.kind === "closed") {
      for (let i = 0; i < arrivals.connections; i++) this.#send(0);
    } else {
      const times = dueTimes(arrivals.perSecond);
      let nextMs = times.next().value as number;
      this.#timer = setInterval(() => {
        const nowMs = this.#nowMs();
        for (; nextMs <= nowMs && nextMs < this.#toMs; nextMs = times.next().value as number)
          this.#send(nextMs);
      }, TICK_MS);
    }
    this.#deadline = setTimeout(() => {
      const missing = this.#inFlight + this.#unsent.length;
      if (missing > 0) this.#fail(`call without an answer ${LAST_ANSWER_MS} ms after the end`, missing);
      this.#finish();
    }, this.#toMs + LAST_ANSWER_MS);
    setTimeout(() => this.#finishIfIdle(), this.#toMs + TICK_MS);
    return this.#done.promise;
  }

  #nowMs(): number {
    return performance.now() - this.#startedAt;
  }

  #send(dueAt: number): void {
    const line = this.#free.pop();
    if (line) this.#write(line, dueAt);
    else if (this.#lines.size < MOST_CONNECTIONS) this.#open(dueAt);
    else this.#unsent.push(dueAt);
  }

  #write(line: Line, dueAt: number): void {
    line.dueAt = dueAt;
    line.isBusy = true;
    this.#inFlight += 1;
    if (line.isConnected) line.socket.write(this.#request);
  }

  #open(dueAt: number): void {
    const { host, port, arrivals } = this.#job;
    const parser = new ResponseParser();
    const socket = connect({
      host,
      port,
      noDelay: true,
      // One buffer per connection, reused for every read.
      onread: {
        buffer: Buffer.allocUnsafe(READ_BYTES),
        callback: (count, bytes) => {
          const parsed = parser.feed(bytes, count);
          if (parsed === "broken")
            this.#drop(line, "an answer that is no single message with a content-length");
          else if (parsed === "complete") this.#onAnswer(line, parser.status);
          return true;
        },
      },
    });
    const line: Line = { socket, dueAt, isBusy: false, isConnected: false };
    this.#lines.add(line);
    this.#write(line, dueAt);
    socket.on("connect", () => {
      line.isConnected = true;
      // A call that is sent when the connection is there was due then.
      if (arrivals.kind === "closed") line.dueAt = this.#nowMs();
      if (line.isBusy) socket.write(this.#request);
    });
    socket.on("error", (error: NodeJS.ErrnoException) =>
      this.#drop(line, `connection: ${error.code ?? error.message}`),
    );
    socket.on("close", () => this.#drop(line, "connection closed by the server"));
  }

  #onAnswer(line: Line, status: number): void {
    if (this.#isOver || !line.isBusy) return;
    line.isBusy = false;
    this.#inFlight -= 1;
    const nowMs = this.#nowMs();
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    if (status === 200) {
      if (nowMs >= this.#fromMs && nowMs < this.#toMs) this.#answered += 1;
      if (line.dueAt >= this.#fromMs && line.dueAt < this.#toMs)
        this.#latencies.add((nowMs - line.dueAt) * 1000);
    }
    if (this.#job.arrivals.kind === "closed" && nowMs < this.#toMs) return this.#write(line, this.#nowMs());
    const waiting = this.#unsent.shift();
    if (waiting !== undefined) return this.#write(line, waiting);
    this.#free.push(line);
    this.#finishIfIdle();
  }

  /** The connection is gone. Between two calls a server may close it. */
  #drop(line: Line, problem: string): void {
    if (this.#isOver || !this.#lines.delete(line)) return;
    line.socket.destroy();
    const index = this.#free.indexOf(line);
    if (index !== -1) this.#free.splice(index, 1);
    if (!line.isBusy) return;
    this.#inFlight -= 1;
    this.#fail(problem, 1);
    const waiting = this.#unsent.shift();
    if (waiting !== undefined) this.#open(waiting);
    this.#finishIfIdle();
  }

  #finishIfIdle(): void {
    if (this.#nowMs() >= this.#toMs && this.#inFlight === 0 && this.#unsent.length === 0) this.#finish();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#timer);
    clearTimeout(this.#deadline);
    for (const { socket } of this.#lines) socket.destroy();
    this.#done.resolve({
      calls: this.#answered,
      callsPerSecond: (this.#answered / this.#job.measureMs) * 1000,
      p50Us: this.#latencies.quantileUs(0.5),
      p95Us: this.#latencies.quantileUs(0.95),
      p99Us: this.#latencies.quantileUs(0.99),
      statuses: this.#statuses,
      errors: this.#errors,
    });
  }

  #fail(problem: string, count: number): void {
    this.#errors[problem] = (this.#errors[problem] ?? 0) + count;
  }
}

for await (const line of createInterface({ input: process.stdin }))
  console.log(JSON.stringify(await new Load(JSON.parse(line) as BatchingJob).run()));
