/** The head of a request to a server app, as the app is to see it. */
export type HttpRequest = {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
};

/** A request as it is stored: the head, then the body as it came. */
export type StoredHttpRequest = { readonly head: HttpRequest; readonly body: Buffer };

const LENGTH_BYTES = 4;
/** How much of a path is a run's name. */
const MAX_NAME_CHARS = 200;

/** What a run of a server app is called: its path, where a run of a function has the function's name. */
export function pathName(target: string): string {
  const mark = target.indexOf("?");
  return target.slice(0, Math.min(mark === -1 ? target.length : mark, MAX_NAME_CHARS));
}

/** Whether a run is a request to a server app: no function has such a name. */
export function isServerRun({ functionName }: { readonly functionName: string }): boolean {
  return functionName.startsWith("/");
}

/** Puts a request into one piece, to be stored as a run's input. */
export function packRequest({ method, target, headers }: HttpRequest, body: Buffer): Buffer {
  const head = Buffer.from(JSON.stringify({ method, target, headers }));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, body]);
}

/** The same for a request that is only shown: of its headers, the type of its body. */
export function packBody({ method, target, headers }: HttpRequest, body: Buffer): Buffer {
  const type = headerOf(headers, "content-type");
  return packRequest({ method, target, headers: type === null ? [] : ["content-type", type] }, body);
}

/** Reads a request that `packRequest` has written. */
export function unpackRequest(input: Uint8Array): StoredHttpRequest {
  const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength);
  const bodyAt = LENGTH_BYTES + bytes.readUInt32BE();
  // oxlint-disable-next-line no-unsafe-type-assertion -- written by `packRequest`
  const head = JSON.parse(bytes.toString("utf8", LENGTH_BYTES, bodyAt)) as HttpRequest;
  return { head, body: bytes.subarray(bodyAt) };
}

/** The value of a header that a list of names and values holds; null where it has none. */
export function headerOf(headers: readonly string[], name: string): string | null {
  for (let i = 0; i < headers.length; i += 2) {
    const each = headers[i] ?? "";
    // By length first: lower-casing all of them would cost more than the rest.
    if (each.length === name.length && each.toLowerCase() === name) return headers[i + 1] ?? null;
  }
  return null;
}
