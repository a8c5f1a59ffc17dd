/** One measurement for the stream reader: so many streams at once, each on a connection of its own. */
export type StreamJob = {
  readonly host: string;
  readonly port: number;
  /** The whole HTTP request, head and body, one character per byte. */
  readonly request: string;
  readonly streams: number;
  /** When counting starts and ends, after the start of the job; null counts from the start to the last message. */
  readonly window: { readonly fromMs: number; readonly toMs: number } | null;
  /** How long after the window, or without one after the start, the last stream must have ended. */
  readonly endWithinMs: number;
  /** Of gzip streams every so many-th is decoded; the others are only read. */
  readonly decodeEvery: number;
  /** Whose CPU time and memory is read at both ends of the window. */
  readonly watch: readonly number[];
};

export type StreamResult = {
  /** Inside the window, of all streams; with gzip extrapolated from those that were decoded. */
  readonly messages: number;
  readonly messagesPerSecond: number;
  /** From yield to the reader, for messages that begin with their time. */
  readonly p50Us: number;
  readonly p99Us: number;
  /** All messages of the decoded streams, the time outside the window included. */
  readonly messagesEver: number;
  /** By process, in the order of `watch`: CPU time inside the window, memory at its end. */
  readonly cpuMs: readonly number[];
  readonly residentBytes: readonly number[];
  readonly readerCpuMs: number;
  /** CPU time that everybody else on the machine took inside the window, in cores. */
  readonly othersCores: number;
  /** HTTP status → answers. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Problem → how often. */
  readonly errors: Readonly<Record<string, number>>;
};

/** What makes a measurement worthless: any answer but 200, any stream without its proper end; null when sound. */
export function streamProblemOf(result: StreamResult): string | null {
  const others = Object.entries(result.statuses).filter(([status]) => status !== "200");
  const problems = [
    ...others.map(([status, count]) => `${count} × status ${status}`),
    ...Object.entries(result.errors).map(([problem, count]) => `${count} × ${problem}`),
  ];
  if (problems.length === 0 && result.messages === 0) problems.push("no message arrived");
  return problems.length === 0 ? null : problems.join(", ");
}
