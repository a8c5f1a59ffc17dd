/** JSON with a member on each line; anything else as it is. */
export function prettyText(text: string, isCut: boolean): string {
  if (isCut) return text;
  try {
    const value: unknown = JSON.parse(text);
    // What a number loses by being read, the text has kept.
    return hasLongNumber(text) ? text : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

/** Whether it holds a number that would not survive being read. */
function hasLongNumber(text: string): boolean {
  return /\d{16}/.test(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""'));
}
