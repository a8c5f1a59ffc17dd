/** What the other side sent is no valid HTTP response; the text says why, and names nothing that it sent. */
export class BadResponse extends Error {}

/** The header fields of a response, and what they say of its frame. */
type Fields = {
  /** Names and values in turn, as they came. */
  readonly headers: readonly string[];
  /** Null if none is given. */
  readonly length: number | null;
  readonly isChunked: boolean;
  /** The connection ends with this response. */
  readonly isClosing: boolean;
  /** It does not, says an HTTP/1.0 server. */
  readonly isKept: boolean;
};

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const BAD_VALUE = /[\x00-\x08\x0a-\x1f\x7f]/;
const CONNECTION = "connection";
const LENGTH = /^\d{1,15}$/;

/** Reads the lines of a head, without the first; throws `BadResponse` for any that is not plainly right. */
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
    // A line that begins with a blank, which once continued the one before, has no name either.
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

/** Names and values in turn as the lines of a head; each was checked where it came in. */
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

/** The headers that belong to one connection alone, as it says itself; null where it names none. */
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
/** A name of letters, digits, dashes and underscores between dots, or an address, and perhaps a port. */
const HOST = /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$/;

/** Callers of one address send the same one with every request, and parsing it costs more than all the rest. */
let latest = "";

/** Whether the value of a Host header is a host, perhaps with a port, and nothing else: links are made of it. */
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

/**
 * Whether every hop between a caller and this service reads a transfer encoding in the same way.
 * Node's parser takes others before it (`identity, chunked`) and drops them; a proxy in front may not.
 */
export function isPlainlyChunked(value: string, httpVersion: string): boolean {
  return httpVersion === "1.1" && value.trim().toLowerCase() === "chunked";
}
