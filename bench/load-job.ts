/** One measurement for the load generator: so many keep-alive connections, each with one call in flight. */
export type LoadJob = {
  readonly host: string;
  readonly port: number;
  /** Whole HTTP requests, head and body, one character per byte: each connection repeats one, the next one the next. */
  readonly requests: readonly string[];
  readonly connections: number;
  /** Time under load before counting starts. */
  readonly leadInMs: number;
  readonly measureMs: number;
};

export type LoadResult = {
  /** Calls answered inside the window; rate and latencies are of these. */
  readonly calls: number;
  readonly callsPerSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** HTTP status → answers, the lead-in included. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Problem → how often. */
  readonly errors: Readonly<Record<string, number>>;
};

/** What makes a measurement worthless: any other answer than this, any error, no call at all; null when sound. */
export function problemOf(result: LoadResult, wanted = 200): string | null {
  const others = Object.entries(result.statuses).filter(([status]) => status !== String(wanted));
  const problems = [
    ...others.map(([status, count]) => `${count} × status ${status}`),
    ...Object.entries(result.errors).map(([problem, count]) => `${count} × ${problem}`),
  ];
  if (problems.length === 0 && result.calls === 0) problems.push("no call was answered");
  return problems.length === 0 ? null : problems.join(", ");
}

/** The bytes of one call, ready to be written again and again. */
export function buildRequest(url: URL, headers: Readonly<Record<string, string>>, body: string): string {
  const lines = [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${lines.join("\r\n")}\r\n\r\n${Buffer.from(body).toString("latin1")}`;
}
