import { useSyncExternalStore } from "react";
import { SHOWN_BYTES } from "./payload.ts";

/** What has come of a body. */
export type ShownBody = {
  readonly bytes: number;
  /** Its beginning, if it can be read. */
  readonly text: string;
  /** There is more than the text. */
  readonly isCut: boolean;
  /** All that came is still here, to be saved. */
  readonly isKept: boolean;
};

/** More than this is counted, not kept. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
/** A screen that changes more often cannot be read. */
const TELL_MS = 100;

const NOTHING: ShownBody = { bytes: 0, text: "", isCut: false, isKept: true };

/** A body as it comes, however long it is: it tells who looks a few times a second. */
export class BodyLog {
  #pieces: Uint8Array<ArrayBuffer>[] = [];
  #bytes = 0;
  #text = "";
  #decoder = new TextDecoder();
  #snapshot = NOTHING;
  #timer: ReturnType<typeof setTimeout> | null = null;
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): ShownBody => this.#snapshot;

  add(piece: Uint8Array<ArrayBuffer>): void {
    const left = SHOWN_BYTES - this.#bytes;
    if (left > 0) this.#text += this.#decoder.decode(piece.subarray(0, left), { stream: true });
    this.#bytes += piece.length;
    if (this.#bytes > MAX_KEPT_BYTES) this.#pieces = [];
    else this.#pieces.push(piece);
    this.#timer ??= setTimeout(() => this.flush(), TELL_MS);
  }

  /** Tells who looks now, not in a moment. */
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#snapshot = {
      bytes: this.#bytes,
      text: this.#text,
      isCut: this.#bytes > SHOWN_BYTES,
      isKept: this.#bytes <= MAX_KEPT_BYTES,
    };
    for (const listener of this.#listeners) listener();
  }

  clear(): void {
    this.#pieces = [];
    this.#bytes = 0;
    this.#text = "";
    this.#decoder = new TextDecoder();
    this.flush();
  }

  /** All that came. */
  blob(type: string): Blob {
    return new Blob(this.#pieces, { type });
  }
}

export function useBody(log: BodyLog): ShownBody {
  return useSyncExternalStore(log.subscribe, log.snapshot);
}
