/** What is kept of a run beside its record. */
export type Payload = {
  /** The arguments as they came; null where they are not kept. */
  readonly input: Uint8Array | null;
  /** The body of the response, byte for byte; null while there is none or it is not kept. */
  readonly result: Uint8Array | null;
  /** Of the response; null when it has no body. */
  readonly contentType: string | null;
  /** The response is the bare result, without the envelope. */
  readonly isBare: boolean;
  /** The caller's own webhook secret, sealed. */
  readonly sealedSecret: Uint8Array | null;
};
