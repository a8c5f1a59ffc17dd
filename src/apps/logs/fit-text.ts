const MAX_BYTES = 64 * 1024;

/** A line's text as it can be kept: at most 64 KiB, with a mark where it was cut, and without NUL. */
export function fitText(text: string): string {
  // No character takes more than three bytes for each unit of its length.
  const isShort = text.length * 3 <= MAX_BYTES || Buffer.byteLength(text) <= MAX_BYTES;
  return clean(isShort ? text : cut(text));
}

function cut(text: string): string {
  const bytes = Buffer.from(text);
  let end = MAX_BYTES;
  // Not within a character: its bytes after the first begin with 10.
  while ((bytes[end]! & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString("utf8", 0, end)} [millrace: cut, ${bytes.length - end} more bytes]`;
}

/** Postgres refuses a NUL in text. Runs of them become one sign: a line of nothing else took 10 ms one by one. */
function clean(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.includes("\0") ? text.replaceAll(/\0+/g, "\uFFFD") : text;
}
