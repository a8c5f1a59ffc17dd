import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { Histogram } from "./histogram.ts";
import type { LoadJob, LoadResult } from "./load-job.ts";
import { ResponseParser } from "./response-parser.ts";

// The load generator, a process of its own: no event loop is shared with a server. It takes one job per line
// on stdin, answers each with one line on stdout, and ends with its stdin. Living through the whole bench keeps
// its code compiled, so that the first subject measured is not charged for it.

/** How long after the end of the window an answer may still come. */
const LAST_ANSWER_MS = 5_000;

function load(job: LoadJob): Promise<LoadResult> {
  const requests = job.requests.map((request) => Buffer.from(request, "latin1"));
  const latencies = new Histogram();
  const statuses: Record<number, number> = {};
  const errors: Record<string, number> = {};
  const sockets: Socket[] = [];
  const { promise, resolve } = Promise.withResolvers<LoadResult>();

  const windowFrom = performance.now() + job.leadInMs;
  const windowTo = windowFrom + job.measureMs;
  let open = job.connections;

  const finish = () => {
    clearTimeout(deadline);
    for (const socket of sockets) socket.destroy();
    resolve({
      calls: latencies.count,
      callsPerSecond: (latencies.count / job.measureMs) * 1000,
      p50Us: latencies.quantileUs(0.5),
      p99Us: latencies.quantileUs(0.99),
      statuses,
      errors,
    });
  };
  const fail = (problem: string) => {
    errors[problem] = (errors[problem] ?? 0) + 1;
  };
  const deadline = setTimeout(
    () => {
      fail(`${open} connection(s) without an answer ${LAST_ANSWER_MS} ms after the end`);
      finish();
    },
    job.leadInMs + job.measureMs + LAST_ANSWER_MS,
  );

  const start = (request: Buffer) => {
    const parser = new ResponseParser();
    let sentAt = 0;
    let isOpen = true;
    const end = (problem: string | null) => {
      if (!isOpen) return;
      isOpen = false;
      if (problem !== null) fail(problem);
      open -= 1;
      if (open === 0) finish();
    };
    const take = (count: number, bytes: Uint8Array): boolean => {
      if (!isOpen) return true;
      const parsed = parser.feed(bytes, count);
      if (parsed === "partial") return true;
      if (parsed === "broken") {
        end("an answer that is no single message with a content-length");
        return true;
      }
      const now = performance.now();
      statuses[parser.status] = (statuses[parser.status] ?? 0) + 1;
      if (now >= windowTo) {
        end(null);
        return true;
      }
      if (now >= windowFrom) latencies.add((now - sentAt) * 1000);
      sentAt = performance.now();
      socket.write(request);
      return true;
    };
    // One buffer per connection, reused for every read.
    const socket = connect({
      host: job.host,
      port: job.port,
      noDelay: true,
      onread: { buffer: Buffer.allocUnsafe(16_384), callback: take },
    });
    socket.on("connect", () => {
      sentAt = performance.now();
      socket.write(request);
    });
    socket.on("error", (error: NodeJS.ErrnoException) => end(`connection: ${error.code ?? error.message}`));
    socket.on("close", () => end("connection closed by the server"));
    sockets.push(socket);
  };
  for (let i = 0; i < job.connections; i++) start(requests[i % requests.length]!);
  return promise;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await load(JSON.parse(line) as LoadJob)));
}
