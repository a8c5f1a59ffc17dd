import type { IncomingMessage } from "node:http";
import { KeptBody } from "../../kit/kept-body.ts";
import { releaseBytes } from "../../kit/release-bytes.ts";
import type { BodySource } from "../../replicas/call.ts";
import { requestTrailers } from "./request-headers.ts";

/** A request's body on its way through: read as fast as the app takes it, never more than `maxBytes`. */
export class ProxyBody implements BodySource {
  readonly length: number | null;
  readonly #request: IncomingMessage;
  readonly #maxBytes: number;
  readonly #kept: KeptBody;
  readonly #onTooLarge: () => void;
  #bytes = 0;
  #isStopped = false;

  /** `keptBytes` of it are remembered, if it is no larger than that. */
  constructor(
    request: IncomingMessage,
    length: number | null,
    { maxBytes, keptBytes }: { readonly maxBytes: number; readonly keptBytes: number },
    onTooLarge: () => void,
  ) {
    this.#request = request;
    this.length = length;
    this.#maxBytes = maxBytes;
    this.#kept = new KeptBody(length !== null && length > keptBytes ? 0 : keptBytes);
    this.#onTooLarge = onTooLarge;
  }

  start(
    take: (bytes: Buffer, onSent?: () => void) => boolean,
    end: (trailers: readonly string[]) => void,
  ): void {
    const request = this.#request;
    request.on("data", (bytes: Buffer) => {
      if (this.#isStopped) return;
      this.#bytes += bytes.length;
      if (this.#bytes > this.#maxBytes) {
        this.stop();
        this.#onTooLarge();
        return;
      }
      this.#kept.add(bytes);
      const hasRoom = this.#kept.isTooLarge ? take(bytes, () => releaseBytes(bytes)) : take(bytes);
      if (!hasRoom) request.pause();
    });
    request.on("end", () => {
      if (!this.#isStopped) end(requestTrailers(request.rawTrailers));
    });
  }

  resume(): void {
    this.#request.resume();
  }

  /** What still comes is read away: the connection may carry another request. */
  stop(): void {
    this.#isStopped = true;
    this.#request.resume();
  }

  /** All of it, as far as it has come; null where it was larger than what is kept. */
  kept(): Buffer | null {
    return this.#request.complete && this.#bytes > 0 ? this.#kept.whole() : null;
  }
}
