/** Of the connection between the nodes. */
const OF_CONNECTION = new Set(["connection", "keep-alive", "transfer-encoding"]);

/** The headers of an answer without those of the connection that it came on, unless that `mayClose` this one too. */
export function answerHeaders(given: readonly string[], mayClose: boolean, mustClose: boolean): string[] {
  const headers: string[] = [];
  let isClosing = false;
  for (let i = 0; i < given.length; i += 2) {
    const name = given[i] ?? "";
    const value = given[i + 1] ?? "";
    const key = name.toLowerCase();
    if (key === "connection" && mayClose && value.toLowerCase() === "close") isClosing = true;
    else if (OF_CONNECTION.has(key)) continue;
    headers.push(name, value);
  }
  if (mustClose && !isClosing) headers.push("connection", "close");
  return headers;
}

/** Names and values in turn, as pairs. */
export function pairsOf(fields: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < fields.length; i += 2) pairs.push([fields[i] ?? "", fields[i + 1] ?? ""]);
  return pairs;
}
