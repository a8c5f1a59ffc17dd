/** Bytes that lie in the blob store: their hash, and how many there are. */
export type PayloadBlob = { readonly hash: string; readonly bytes: number };

/** What is kept of a run beside its record. */
export type Payload = {
  /** The arguments as they came; null where they are not kept, or lie in a blob. */
  readonly input: Uint8Array | null;
  readonly inputBlob?: PayloadBlob;
  /** The body of the response, byte for byte; null while there is none, it is not kept, or it lies in a blob. */
  readonly result: Uint8Array | null;
  readonly resultBlob?: PayloadBlob;
  /** Of the response; null when it has no body. */
  readonly contentType: string | null;
  /** The response is the bare result, without the envelope. */
  readonly isBare: boolean;
  /** The caller's own webhook secret, sealed. */
  readonly sealedSecret: Uint8Array | null;
};
