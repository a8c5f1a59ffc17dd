const MAX_CHARS = 80;
const MAX_ITEMS = 10;
const SCHEME = /^[a-z][a-z0-9+.-]{0,30}:\/\//i;

/** A raw value as a message may show it: on one line, at most 80 characters, without credentials. */
export function showValue(value: unknown): string {
  return cut(render(value, 0));
}

/** A key as a message may show it: plain where it is plain, quoted and cut where it is not. */
export function showKey(key: string): string {
  return /^[\w.-]{1,80}$/.test(key) ? key : cut(JSON.stringify(key.slice(0, MAX_CHARS + 1)));
}

/** All that a message may tell of a value that is itself a secret: the scheme of an address. */
export function showSecret(value: unknown): string {
  const scheme = typeof value === "string" ? SCHEME.exec(value)?.[0] : undefined;
  return scheme === undefined ? "a value that is not shown" : cut(JSON.stringify(`${scheme}***`));
}

/** Everything in an address that may be a password is replaced by `***`. */
function maskCredentials(text: string): string {
  const scheme = SCHEME.exec(text)?.[0];
  // To the last @: a password that was not encoded may hold any other character, @ included.
  if (scheme === undefined) return text.replace(/^.*:.*@/s, "***@");
  const address = text.slice(scheme.length);
  const host = address.slice(address.lastIndexOf("@") + 1);
  const path = host.replace(/[?#].*$/s, "?***");
  return scheme + (host === address ? "" : "***@") + path;
}

function render(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      // Cut before quoting: an upload may hold megabytes in one text.
      return JSON.stringify(maskCredentials(value.slice(0, 4096)));
    case "number":
    case "bigint":
    case "boolean":
      return String(value);
    case "object":
      if (value === null) return "null";
      if (value instanceof Date) return "a date";
      if (!Array.isArray(value)) return "a table";
      if (depth > 0) return "a list";
      return `[${value
        .slice(0, MAX_ITEMS)
        .map((item) => render(item, depth + 1))
        .join(", ")}${value.length > MAX_ITEMS ? ", …" : ""}]`;
    default:
      return typeof value;
  }
}

function cut(text: string): string {
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS - 1)}…`;
}
