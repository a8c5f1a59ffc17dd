import { isIP } from "node:net";
import { resolve } from "node:path";
import { parseDuration, parseSize } from "../kit/units.ts";

/** Turns a raw value into a typed one, and says in words what it takes. */
export type Reader<T> = {
  /** What is accepted, worded to follow "must be". */
  readonly expects: string;
  /** The typed value; undefined when the raw one does not fit. */
  readonly read: (raw: unknown) => T | undefined;
  /** The raw value behind the text of a flag or an environment variable; absent if it is the text itself. */
  readonly fromText?: (text: string) => unknown;
  /** True when no message may show the value. */
  readonly secret?: boolean;
};

const numberFromText = (text: string): unknown => (/^-?\d{1,20}(\.\d+)?$/.test(text) ? Number(text) : text);
const listFromText = (text: string): unknown => text.split(",").flatMap((item) => item.trim() || []);

/** Takes whole numbers between two bounds, both included. */
export function integer(min: number, max: number): Reader<number> {
  return {
    expects: `a whole number from ${min} to ${max}`,
    read: (raw) => (Number.isSafeInteger(raw) ? within(raw as number, min, max) : undefined),
    fromText: numberFromText,
  };
}

/** Takes numbers between two bounds, both included. */
export function decimal(min: number, max: number): Reader<number> {
  return {
    expects: `a number from ${min} to ${max}`,
    read: (raw) => (typeof raw === "number" ? within(raw, min, max) : undefined),
    fromText: numberFromText,
  };
}

/** Takes seconds as a number, or text such as "1h30m"; gives seconds. */
export function duration(min: string, max: string): Reader<number> {
  return quantity("duration", parseDuration, decimal, min, max);
}

/** Takes bytes as a whole number, or text such as "32MiB"; gives bytes. */
export function size(min: string, max: string): Reader<number> {
  return quantity("size", parseSize, integer, min, max);
}

function quantity(
  kind: string,
  parse: (text: string) => number | null,
  numbers: typeof integer,
  min: string,
  max: string,
): Reader<number> {
  const { read } = numbers(parse(min) ?? Number.NaN, parse(max) ?? Number.NaN);
  return {
    expects: `a ${kind} from ${min} to ${max}`,
    read: (raw) => read(typeof raw === "string" ? parse(raw) : raw),
  };
}

/** Takes true and false, and nothing that merely looks like one of them. */
export function boolean(): Reader<boolean> {
  return {
    expects: "true or false",
    read: (raw) => (typeof raw === "boolean" ? raw : undefined),
    fromText: (text) => (text === "true" ? true : text === "false" ? false : text),
  };
}

/** Takes true, false, and one word besides. */
export function booleanOr<const W extends string>(word: W): Reader<boolean | W> {
  const plain = boolean();
  const read = (raw: unknown): boolean | W | undefined => (raw === word ? word : plain.read(raw));
  return { ...plain, expects: `true, false or "${word}"`, read };
}

/** Takes one of a closed set of words. */
export function oneOf<const W extends string>(words: readonly W[]): Reader<W> {
  return {
    expects: `one of ${words.map((word) => `"${word}"`).join(", ")}`,
    read: (raw) => words.find((word) => word === raw),
  };
}

/** Takes one line of text that is not empty. */
export function line(maxChars: number): Reader<string> {
  return matching(`text of 1 to ${maxChars} characters on one line`, (text) => text.length <= maxChars);
}

/** Takes a path; gives it resolved against the working directory. */
export const resolvedPath: Reader<string> = mapped(line(4096), (path) => resolve(path));

/** Takes text of any number of lines that is not empty. */
export function block(maxChars: number): Reader<string> {
  return {
    expects: `text of 1 to ${maxChars} characters`,
    read(raw) {
      if (typeof raw !== "string" || raw.trim() === "" || raw.length > maxChars) return undefined;
      return raw.includes("\0") || !raw.isWellFormed() ? undefined : raw;
    },
  };
}

/** Takes one line of text for which the test holds. */
export function matching(expects: string, fits: (text: string) => boolean): Reader<string> {
  return {
    expects,
    read: (raw) => (typeof raw === "string" && isPlainLine(raw) && fits(raw) ? raw : undefined),
  };
}

/** Takes a list of what `item` takes; as text, the items are separated by commas. */
export function listOf<T>(expects: string, item: Reader<T>, maxItems: number): Reader<readonly T[]> {
  return {
    expects,
    read(raw) {
      if (!Array.isArray(raw) || raw.length > maxItems) return undefined;
      const items = raw.map((entry) => item.read(entry));
      return items.includes(undefined) ? undefined : (items as T[]);
    },
    fromText: listFromText,
  };
}

/** Takes a list, or one item without the brackets. */
export function oneOrMore<T>(expects: string, item: Reader<T>, maxItems: number): Reader<readonly T[]> {
  const list = listOf(expects, item, maxItems);
  return {
    ...list,
    read(raw) {
      const items = list.read(Array.isArray(raw) ? raw : [raw]);
      return items?.length === 0 ? undefined : items;
    },
  };
}

/** Takes what `reader` takes; null and empty text mean that nothing is set. */
export function optional<T>(reader: Reader<T>): Reader<T | null> {
  return { ...reader, read: (raw) => (raw === null || raw === "" ? null : reader.read(raw)) };
}

/** Takes what `reader` takes and gives something made of it. */
export function mapped<T, U>(reader: Reader<T>, make: (value: T) => U): Reader<U> {
  return {
    ...reader,
    read(raw) {
      const value = reader.read(raw);
      return value === undefined ? undefined : make(value);
    },
  };
}

/** Takes an IPv4 or IPv6 range; a bare address is the range that holds only it. */
export function cidr(): Reader<string> {
  const reader = matching("an address range such as 10.0.0.0/8 or fd00::/8", (text) => {
    const [address = "", prefix, ...rest] = text.split("/");
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
    // A zone names an interface of this machine and cannot be part of a range.
    if (bits < 0 || rest.length > 0 || address.includes("%")) return false;
    return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits);
  });
  return mapped(reader, (text) => (text.includes("/") ? text : `${text}/${isIP(text) === 4 ? 32 : 128}`));
}

/** Takes an http or https address without credentials, query or fragment; gives it without a trailing slash. */
export function publicUrl(): Reader<string> {
  const reader = matching("an http or https address without credentials, query or fragment", (text) => {
    const url = URL.parse(text);
    if (url === null || !/^https?:\/\//i.test(text)) return false;
    return url.username === "" && url.password === "" && !/[?#\\]/.test(text);
  });
  return mapped(reader, (text) => text.replace(/\/+$/, ""));
}

/** Refuses NaN and the infinities too; -0 becomes 0. */
function within(value: number, min: number, max: number): number | undefined {
  return value >= min && value <= max ? value + 0 : undefined;
}

function isPlainLine(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.trim() !== "" && !/[\u0000-\u001f\u007f]/.test(text) && text.isWellFormed();
}

/** One setting of the service: its name gives the flag, the environment variable and the key in the config file. */
export type SettingKey<T> = {
  /** snake_case. */
  readonly name: string;
  readonly reader: Reader<T>;
  /** As in a flag; undefined if nothing is set. */
  readonly default: string | undefined;
  readonly meaning: string;
};

/** Settings by the member of `Settings` that each fills. */
export type SettingKeys = Readonly<Record<string, SettingKey<unknown>>>;

type Undescribed<Key> = { readonly describe: (meaning: string) => Key };

/** Begins a row in the table of settings. */
export function setting<T>(name: string, reader: Reader<T>, usual?: string): Undescribed<SettingKey<T>> {
  return { describe: (meaning) => ({ name, reader, default: usual, meaning }) };
}

/** What the machine contributes to an app's configuration. */
export type Host = { readonly cpuCount: number };

/** One key of the app's configuration, wherever it may be given. */
export type AppKey<T> = {
  /** Table and key in the file, such as `scaling.cooldown`. */
  readonly path: string;
  /** The member of a deploy payload; absent if only the file can give it. */
  readonly payload?: string | undefined;
  readonly reader: Reader<T>;
  /** As in the file; undefined if nothing is set. */
  readonly default: Json | DefaultFor | undefined;
  readonly meaning: string;
};

type Json = string | number | boolean | readonly string[];
/** A default that depends on the host and on the fields above this one. */
type DefaultFor = (host: Host, above: Readonly<Record<string, unknown>>) => unknown;

/** Begins a row in a table of an app's configuration; `payload` is null if only the file can give the value. */
export function key<T>(
  path: string,
  payload: string | null,
  reader: Reader<T>,
  usual?: Json | DefaultFor,
): Undescribed<AppKey<T>> {
  return {
    describe: (meaning) => ({ path, payload: payload ?? undefined, reader, default: usual, meaning }),
  };
}

/** The keys of one table, by the field that each fills. */
export type AppKeys<C> = { readonly [K in keyof C]: AppKey<C[K]> };
