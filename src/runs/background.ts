import type { Chunk } from "../replicas/call.ts";
import type { LiveRun, RunReader } from "./live-run.ts";
import type { PartWriter } from "./transcript-parts.ts";

/** The reader of a run nobody waits for: the store. A generator is paused while the store is behind. */
export class BackgroundReader implements RunReader {
  readonly #partWriter: PartWriter;
  #run: LiveRun | null = null;

  constructor(partWriter: PartWriter) {
    this.#partWriter = partWriter;
  }

  attach(run: LiveRun): void {
    this.#run = run;
  }

  onStream(): void {}

  onChunk({ wireBytes }: Chunk): void {
    if (!this.#partWriter.isFull) this.#run?.grant(wireBytes);
    else void this.#partWriter.untilRoom().then(() => this.#run?.grant(wireBytes));
  }

  onEnd(): void {}
}
