import { type Logger, pino } from "pino";

export type Log = Logger;

/** The fields that may be logged; any other is left out, so that no secret gets in by accident. */
const FIELDS: ReadonlySet<string> = new Set(
  // `setupLink` is intended for the log: it makes the first account, and only that.
  (
    "apiUrl appName appNumber attempt baseUrl batch buildId bytes count delivery detail dropped err error fence " +
    "folder host isInterruption isolation job limit lineCount lost node parts projectId python replicaId " +
    "requestId runId schedule setupLink status store stream traceback url versionId waiting wanted warning"
  ).split(" "),
);

/** Text that looks like a secret. Apps choose some of the texts, so the patterns take linear time. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/(?<![\w.-])[\w.-]*eyJ[\w.-]*/g, "[token]"],
  [/whsec_[\w+/=-]+/g, "[secret]"],
  [/([?&][\w-]*(?:token|secret|key|password|signature|grant)=)[^&\s"']*/gi, "$1[masked]"],
  [/(:\/\/)[^/\s@"']+@/g, "$1[masked]@"],
];

/** One JSON line per event on stderr, with known fields only. */
export function createLog(level: string, stream: { write(line: string): unknown } = process.stderr): Log {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { log: allowed },
    serializers: { err: describeError },
  };
  return pino(options, stream);
}

function allowed(fields: Record<string, unknown>): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (!FIELDS.has(name)) continue;
    // An object would bring fields of its own.
    if (name === "err") kept[name] = value;
    else if (typeof value === "string") kept[name] = masked(value);
    else if (typeof value !== "object" || value === null) kept[name] = value;
  }
  return kept;
}

/** Of the errors in an aggregate. */
const MAX_ERRORS = 10;

/** Errors of libraries contain queries, rows and requests: only these members are logged. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return masked(String(error));
  const { name, message, stack, cause } = error;
  const code = "code" in error ? { code: String(error.code) } : {};
  return {
    type: name,
    message: masked(message),
    ...code,
    stack: masked(stack ?? ""),
    ...(cause !== undefined && { cause: describeError(cause) }),
    ...(error instanceof AggregateError && { errors: error.errors.slice(0, MAX_ERRORS).map(describeError) }),
  };
}

function masked(text: string): string {
  return SECRETS.reduce((left, [pattern, mask]) => left.replaceAll(pattern, mask), text);
}
