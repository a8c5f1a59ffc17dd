/** The head of a request, as the server app gets it. */
export type HttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
};

const LENGTH_BYTES = 4;
const MAX_NAME_CHARS = 200;

/** The name of a server app's run: its path, in place of a function's name. */
export function pathName(target: string): string {
  const mark = target.indexOf("?");
  return target.slice(0, Math.min(mark === -1 ? target.length : mark, MAX_NAME_CHARS));
}

/** Whether a run is a request to a server app: no function's name starts with a slash. */
export function isServerRun({ functionName }: { readonly functionName: string }): boolean {
  return functionName.startsWith("/");
}

/** A request as one piece, to be stored as a run's input. */
export function packRequest({ method, target, headers }: HttpRequest, body: Buffer): Buffer {
  const head = Buffer.from(JSON.stringify({ method, target, headers }));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, body]);
}

/** The same for a request that is only shown; of its headers it keeps the content type. */
export function packBody({ method, target, headers }: HttpRequest, body: Buffer): Buffer {
  const type = headerOf(headers, "content-type");
  return packRequest({ method, target, headers: type === null ? [] : ["content-type", type] }, body);
}

/** Reads a request that `packRequest` has written. */
export function unpackRequest(input: Uint8Array): { head: HttpRequest; body: Buffer } {
  const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength);
  const bodyAt = LENGTH_BYTES + bytes.readUInt32BE();
  // oxlint-disable-next-line no-unsafe-type-assertion -- written by `packRequest`
  const head = JSON.parse(bytes.toString("utf8", LENGTH_BYTES, bodyAt)) as HttpRequest;
  return { head, body: bytes.subarray(bodyAt) };
}

/** The value of a header in a list of names and values; null if there is none. */
export function headerOf(headers: readonly string[], name: string): string | null {
  for (let i = 0; i < headers.length; i += 2) {
    const each = headers[i] ?? "";
    // By length first: lower-casing all of them would cost more than the rest.
    if (each.length === name.length && each.toLowerCase() === name) return headers[i + 1] ?? null;
  }
  return null;
}
