import { useSyncExternalStore } from "react";

/** One message of a stream or a WebSocket, as it is shown. */
export type ShownMessage = {
  /** From 1. */
  readonly number: number;
  /** Its name, where it has one. */
  readonly event: string | null;
  readonly data: string;
  /** The text is only its beginning. */
  readonly isCut: boolean;
  /** It went to the app. */
  readonly isSent: boolean;
  /** When it came or went. */
  readonly atMs: number;
};

/** What is shown of a stream. */
export type Messages = {
  readonly shown: readonly ShownMessage[];
  /** How many came. */
  readonly count: number;
  /** No more would be shown without letting go of some. */
  readonly isFull: boolean;
};

const MAX_MESSAGES = 1_000;
const MAX_CHARS = 200_000;
const MAX_MESSAGE_CHARS = 20_000;
/** A screen that changes more often cannot be read. */
const TELL_MS = 100;

const NOTHING: Messages = { shown: [], count: 0, isFull: false };

/** The last messages of a stream, however many come: it tells who looks a few times a second. */
export class MessageLog {
  #shown: ShownMessage[] = [];
  #chars = 0;
  #count = 0;
  #snapshot = NOTHING;
  #timer: ReturnType<typeof setTimeout> | null = null;
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): Messages => this.#snapshot;

  get isFull(): boolean {
    return this.#shown.length >= MAX_MESSAGES || this.#chars >= MAX_CHARS;
  }

  add(event: string | null, data: string, isSent = false): void {
    this.#count += 1;
    const isCut = data.length > MAX_MESSAGE_CHARS;
    const text = isCut ? data.slice(0, MAX_MESSAGE_CHARS) : data;
    this.#shown.push({ number: this.#count, event, data: text, isCut, isSent, atMs: Date.now() });
    this.#chars += text.length;
    while (this.#shown.length > MAX_MESSAGES || (this.#chars > MAX_CHARS && this.#shown.length > 1)) {
      this.#chars -= this.#shown.shift()?.data.length ?? 0;
    }
    this.#timer ??= setTimeout(() => this.#tell(), TELL_MS);
  }

  /** Tells who looks now, not in a moment. */
  flush(): void {
    this.#tell();
  }

  clear(): void {
    this.#shown = [];
    this.#chars = 0;
    this.#count = 0;
    this.#tell();
  }

  #tell(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#snapshot = { shown: [...this.#shown], count: this.#count, isFull: this.isFull };
    for (const listener of this.#listeners) listener();
  }
}

export function useMessages(log: MessageLog): Messages {
  return useSyncExternalStore(log.subscribe, log.snapshot);
}
