import { followLog } from "../../../api/log-tail.ts";
import { readLog } from "../../../api/logs.ts";
import type { LogFilter, LogLine } from "../../../api/logs.ts";

/** A line with its place among those that are kept; older ones have lower numbers, below zero too. */
export type NumberedLine = LogLine & { readonly number: number };

export type LogState = {
  readonly lines: readonly NumberedLine[];
  /** Until the first page is there. */
  readonly isLoading: boolean;
  readonly isLive: boolean;
  readonly isPaused: boolean;
  /** Lines that came while it is paused; at most as many as are kept. */
  readonly heldCount: number;
  readonly hasOlder: boolean;
  readonly isLoadingOlder: boolean;
  readonly error: unknown;
};

/** So many lines are kept, whatever comes: a page that stays open must not grow. */
export const MAX_LINES = 5_000;
const PAGE_SIZE = 500;
/** A search may find nothing in a page and go on; somebody is asked after so many. */
const MAX_EMPTY_PAGES = 8;
const LONG_AGO = "1970-01-01T00:00:00Z";

const START: LogState = {
  lines: [],
  isLoading: true,
  isLive: false,
  isPaused: false,
  heldCount: 0,
  hasOlder: false,
  isLoadingOlder: false,
  error: null,
};

/** What is seen of an app's log: the newest lines, those that come, and older ones on demand. */
export class LogView {
  readonly #where: { readonly projectId: string; readonly appName: string };
  readonly #filter: LogFilter;
  readonly #listeners = new Set<() => void>();
  #state = START;
  #held: LogLine[] = [];
  #olderToken: string | null = null;
  /** Newer lines were let go of for older ones: what comes does not follow on what is shown. */
  #isDetached = false;
  #ending = new AbortController();

  constructor(where: { readonly projectId: string; readonly appName: string }, filter: LogFilter) {
    this.#where = where;
    this.#filter = filter;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): LogState => this.#state;

  /** Shows the newest lines and follows from there; begins anew when it was open already. */
  open(): void {
    this.close();
    this.#ending = new AbortController();
    const { signal } = this.#ending;
    this.#held = [];
    this.#isDetached = false;
    this.#change({ ...START, lines: this.#state.lines, isLoading: this.#state.lines.length === 0 });
    this.#begin(signal).catch((error: unknown) => {
      if (!signal.aborted) this.#change({ isLoading: false, error });
    });
  }

  close(): void {
    this.#ending.abort();
    this.#change({ isLive: false });
  }

  /** Nothing moves any more; what comes is kept aside. */
  pause(): void {
    this.#change({ isPaused: true });
  }

  /** Shows what came meanwhile. */
  resume(): void {
    if (this.#isDetached || this.#held.length >= MAX_LINES || this.#ending.signal.aborted) return this.open();
    const held = this.#held;
    this.#held = [];
    this.#change({ isPaused: false, heldCount: 0 });
    this.#append(held);
  }

  async loadOlder(): Promise<void> {
    const { signal } = this.#ending;
    const oldest = this.#state.lines[0];
    this.#change({
      isLoadingOlder: true,
      isPaused: this.#state.isPaused || oldest !== undefined,
      error: null,
    });
    try {
      const older = await this.#read(oldest?.timestamp, signal);
      const first = (oldest?.number ?? 0) - older.length;
      const numbered = older.map((line, index) => ({ ...line, number: first + index }));
      const lines = [...numbered, ...this.#state.lines];
      this.#isDetached ||= lines.length > MAX_LINES;
      this.#change({ lines: lines.slice(0, MAX_LINES) });
    } catch (error) {
      if (!signal.aborted) this.#change({ error });
    } finally {
      if (!signal.aborted) this.#change({ isLoadingOlder: false });
    }
  }

  async #begin(signal: AbortSignal): Promise<void> {
    const { runId, search, stream, replica } = this.#filter;
    this.#olderToken = null;
    // A search's newest hit may be old: its tail still begins at the end of the log.
    const isNarrow = Boolean(search || replica) || stream !== undefined;
    const end = isNarrow
      ? (await readLog(this.#where, { pageSize: 1, ...(runId && { runId }) }, signal)).lines.at(-1)
      : null;
    const lines = await this.#read(undefined, signal);
    if (signal.aborted) return;
    this.#change({ lines: lines.map((line, number) => ({ ...line, number })), isLoading: false });
    const after = (isNarrow ? end : lines.at(-1))?.timestamp ?? LONG_AGO;
    const onLines = (came: readonly LogLine[]): void => this.#take(came);
    const onLive = (isLive: boolean): void => this.#change({ isLive });
    followLog({ ...this.#where, runId, after, onLines, onLive }, signal);
  }

  /** The lines before that one, or the newest; goes on while a search finds none. */
  async #read(before: string | undefined, signal: AbortSignal): Promise<readonly LogLine[]> {
    for (let page = 1; ; page += 1) {
      const { lines, olderToken } = await readLog(
        this.#where,
        {
          ...this.#filter,
          pageSize: PAGE_SIZE,
          ...(before && { beforeDate: before }),
          ...(this.#olderToken !== null && { nextToken: this.#olderToken }),
        },
        signal,
      );
      this.#olderToken = olderToken;
      if (lines.length > 0 || olderToken === null || page === MAX_EMPTY_PAGES) {
        this.#change({ hasOlder: olderToken !== null });
        return lines;
      }
    }
  }

  #take(came: readonly LogLine[]): void {
    const last = this.#state.lines.at(-1)?.timestamp ?? "";
    const wanted = came.filter((line) => this.#isWanted(line) && line.timestamp > last);
    if (wanted.length === 0) return;
    if (!this.#state.isPaused) return this.#append(wanted);
    this.#held = [...this.#held, ...wanted].slice(-MAX_LINES);
    this.#change({ heldCount: this.#held.length });
  }

  #append(came: readonly LogLine[]): void {
    const first = (this.#state.lines.at(-1)?.number ?? -1) + 1;
    const all = [...this.#state.lines, ...came.map((line, index) => ({ ...line, number: first + index }))];
    const lines = all.slice(-MAX_LINES);
    // What was let go of can be had again, from the oldest that is shown.
    const isCut = lines.length < all.length;
    if (isCut) this.#olderToken = null;
    this.#change({ lines, ...(isCut && { hasOlder: true }) });
  }

  /** As the service searches: any part of a line, in upper or lower case. */
  #isWanted({ text, stream, replica }: LogLine): boolean {
    const { search, stream: only, replica: ofReplica } = this.#filter;
    if (ofReplica !== undefined && ofReplica !== replica) return false;
    if (only !== undefined && only !== stream) return false;
    return !search || text.toLowerCase().includes(search.toLowerCase());
  }

  #change(change: Partial<LogState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }
}
