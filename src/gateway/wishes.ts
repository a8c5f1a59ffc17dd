import { parseDuration } from "../kit/units.ts";
import { AppError } from "../model/errors.ts";
import {
  MAX_HEAD_START,
  MAX_QUEUE_KEY_CHARS,
  MAX_TAG_CHARS,
  MAX_TAGS,
  MAX_TERM_MS,
  PRIORITIES,
  type Wishes,
} from "../model/terms.ts";
import type { RequestHead } from "./request-head.ts";

/** A call that asks for nothing. */
export const NO_WISHES: Wishes = {
  priority: 0,
  delay: null,
  ttlMs: null,
  timeoutMs: null,
  maxAttempts: null,
  tags: [],
  concurrencyKey: null,
  fairnessKey: null,
};
const MAX_ATTEMPTS = 100;
const MAX_DAYS = MAX_TERM_MS / 86_400_000;
const SPANS = `a duration of up to ${MAX_DAYS} days, such as 90s or 1h30m`;
const DELAYS = `${SPANS}, or a time within them, such as 2027-01-31T08:00:00Z`;
const CONTROL = /[\p{Cc}\p{Cs}]/u;
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/i;

/** How each parameter is read into the wishes; by its name in snake_case. */
const READERS: Readonly<Record<string, (text: string, name: string, now: number) => Partial<Wishes>>> = {
  priority: (text, name) => ({ priority: readPriority(text, name) }),
  delay: (text, name, now) => ({
    delay: RFC_3339.test(text) ? { until: readTime(text, name, now) } : { ms: readSpan(text, name, true) },
  }),
  ttl: (text, name) => ({ ttlMs: readSpan(text, name) }),
  timeout: (text, name) => ({ timeoutMs: readSpan(text, name) }),
  max_attempts: (text, name) => ({ maxAttempts: readAttempts(text, name) }),
  concurrency_key: (text, name) => ({ concurrencyKey: readLabel(text, name, MAX_QUEUE_KEY_CHARS) }),
};
const TAG = "tag";
/** All names, also in camelCase. */
const NAMES = new Map(
  [...Object.keys(READERS), TAG].flatMap((name) => [
    [name, name],
    [name.replaceAll(/_[a-z]/g, ([, letter = ""]) => letter.toUpperCase()), name],
  ]),
);
/** What the names begin with in calls of a server app, whose own parameters may have any name. */
export const SERVER_PREFIX = "millrace_";

/** Whether a parameter of a query belongs to the wishes. */
export function isWish(name: string, prefix: string): boolean {
  return name.startsWith(prefix) && NAMES.has(name.slice(prefix.length));
}

/** What an async call's query and headers ask of the queue; null: nothing. A parameter wins over a header. */
export function readWishes(query: string, prefix: string, head: WishHead, now: number): Wishes | null {
  const isPlain = head.queuePriority === null && head.requestTimeout === null && head.cancelAfter === null;
  if (isPlain && query === "async=true") return null;
  const found = new Map<string, Partial<Wishes>>(headWishes(head, now));
  const seen = new Set<string>();
  const tags: string[] = [];
  for (const [given, text] of new URLSearchParams(query)) {
    const name = given.startsWith(prefix) ? NAMES.get(given.slice(prefix.length)) : undefined;
    if (name === undefined) continue;
    if (name === TAG) tags.push(readLabel(text, given, MAX_TAG_CHARS));
    else if (seen.has(name)) throw refuse(given, "given only once");
    else found.set(name, READERS[name]!(text, given, now));
    seen.add(name);
  }
  if (tags.length > MAX_TAGS) throw refuse(TAG, `given at most ${MAX_TAGS} times`);
  if (found.size === 0 && tags.length === 0) return null;
  return Object.assign({ ...NO_WISHES, tags: [...new Set(tags)] }, ...found.values()) as Wishes;
}

type WishHead = Pick<RequestHead, "queuePriority" | "requestTimeout" | "cancelAfter">;

/** The headers of other services that say the same. */
function headWishes({ queuePriority, requestTimeout, cancelAfter }: WishHead, now: number) {
  const given = [
    ["priority", queuePriority, "X-Fal-Queue-Priority"],
    ["ttl", requestTimeout, "X-Fal-Request-Timeout"],
    ["timeout", cancelAfter, "Cancel-After"],
  ] as const;
  return given.flatMap(([name, text, header]): [string, Partial<Wishes>][] =>
    text === null ? [] : [[name, READERS[name]!(text, header, now)]],
  );
}

function readPriority(text: string, name: string): number {
  const named: number | undefined = Object.hasOwn(PRIORITIES, text)
    ? PRIORITIES[text as keyof typeof PRIORITIES]
    : undefined;
  const seconds = named ?? (/^[+-]?\d{1,4}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN);
  if (Math.abs(seconds) <= MAX_HEAD_START) return seconds;
  const words = Object.keys(PRIORITIES).join(", ");
  throw refuse(name, `${words}, or a number of seconds from -${MAX_HEAD_START} to ${MAX_HEAD_START}`);
}

function readTime(text: string, name: string, now: number): number {
  const time = Date.parse(text);
  if (time >= 0 && time - now <= MAX_TERM_MS) return time;
  throw refuse(name, DELAYS);
}

function readSpan(text: string, name: string, mayBeNone = false): number {
  const seconds = parseDuration(text.slice(0, 40));
  const ms = seconds === null ? Number.NaN : Math.round(seconds * 1000);
  if (ms <= MAX_TERM_MS && ms >= (mayBeNone ? 0 : 1)) return ms;
  throw refuse(name, mayBeNone ? DELAYS : SPANS);
}

function readAttempts(text: string, name: string): number {
  const attempts = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (attempts >= 1 && attempts <= MAX_ATTEMPTS) return attempts;
  throw refuse(name, `a whole number from 1 to ${MAX_ATTEMPTS}`);
}

function readLabel(text: string, name: string, maxChars: number): string {
  if (text !== "" && text.length <= maxChars && !CONTROL.test(text)) return text;
  throw refuse(name, `1 to ${maxChars} characters without control characters`);
}

function refuse(name: string, what: string): AppError {
  return new AppError("bad_request", { message: `${name} must be ${what}.` });
}
