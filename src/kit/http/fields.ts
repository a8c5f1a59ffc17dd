/** Not a valid HTTP response. The message contains nothing that was received. */
export class BadResponse extends Error {}

type Fields = {
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  readonly length: number | null;
  readonly isChunked: boolean;
  /** `Connection: close`, and `keep-alive`. */
  readonly isClosing: boolean;
  readonly isKept: boolean;
};

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const BAD_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;
const CONNECTION = "connection";
const LENGTH = /^\d{1,15}$/;

/** Reads the lines of a head after the first; throws `BadResponse` unless each is plainly right. */
export function parseFields(lines: readonly string[]): Fields {
  const headers: string[] = [];
  let length: number | null = null;
  let isChunked = false;
  let isClosing = false;
  let isKept = false;
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    const value = trimmed(line, colon + 1);
    // A line that begins with a blank, which once continued the previous one, has no name.
    if (colon < 1 || !NAME.test(name) || BAD_VALUE.test(value))
      throw new BadResponse("one of its headers is malformed");
    headers.push(name, value);
    // By length first: lower-casing every name would cost more than the rest.
    if (name.length === 14 && name.toLowerCase() === "content-length") {
      const bytes = LENGTH.test(value) ? Number(value) : Number.NaN;
      if (Number.isNaN(bytes) || (length !== null && length !== bytes))
        throw new BadResponse("its Content-Length is not one number");
      length = bytes;
    } else if (name.length === 17 && name.toLowerCase() === "transfer-encoding") {
      if (isChunked || value.toLowerCase() !== "chunked")
        throw new BadResponse("its Transfer-Encoding is not chunked");
      isChunked = true;
    } else if (name.length === 10 && name.toLowerCase() === "connection") {
      const options = value.toLowerCase().split(",");
      isClosing ||= options.some((option) => option.trim() === "close");
      isKept ||= options.some((option) => option.trim() === "keep-alive");
    }
  }
  return { headers, length, isChunked, isClosing, isKept };
}

/** The rest of a line without the blanks at either end. */
function trimmed(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isBlank(line.charCodeAt(start))) start += 1;
  while (end > start && isBlank(line.charCodeAt(end - 1))) end -= 1;
  return line.slice(start, end);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Names and values as the lines of a head; they were checked when they arrived. */
export function fieldLines(headers: readonly string[]): string {
  let text = "";
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return text;
}

/** Names and values in turn, as pairs. */
export function fieldPairs(headers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < headers.length; i += 2) pairs.push([headers[i] ?? "", headers[i + 1] ?? ""]);
  return pairs;
}

/** The names in `Connection` headers: they are for one connection alone. Null if there are none. */
export function namedByConnection(headers: readonly string[]): ReadonlySet<string> | null {
  let named: Set<string> | null = null;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? "";
    // By length first: lower-casing all of them would cost more than the rest.
    if (name.length !== CONNECTION.length || name.toLowerCase() !== CONNECTION) continue;
    const value = headers[i + 1] ?? "";
    if (value === "keep-alive" || value === "close") continue;
    named ??= new Set();
    for (const each of value.split(",")) named.add(each.trim().toLowerCase());
  }
  return named;
}

/** Longer than any name, with its port. */
const MAX_HOST_CHARS = 261;
/** A name or an address, and perhaps a port. */
const HOST = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$/;

/** Most callers send the same host each time, and parsing it costs more than the rest. */
let latest = "";

/** Whether the value of a Host header is only a host and perhaps a port: links are made of it. */
export function isHost(value: string): boolean {
  if (value === latest && value !== "") return true;
  const isOne = value.length <= MAX_HOST_CHARS && HOST.test(value) && URL.canParse(`http://${value}/`);
  if (isOne) latest = value;
  return isOne;
}

/** The part of a host before `.{domain}`, ignoring case, port and a trailing dot; null if the host is not below it. */
export function labelBelow(host: string, domain: string): string | null {
  const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, "");
  return name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : null;
}

/** Whether all hops read a transfer encoding alike: Node drops others (`identity, chunked`), a proxy may not. */
export function isPlainlyChunked(value: string, httpVersion: string): boolean {
  return httpVersion === "1.1" && value.trim().toLowerCase() === "chunked";
}
