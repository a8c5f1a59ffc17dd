import type { Log } from "../kit/log.ts";
import { repairEnvironments } from "./repair-environments.ts";
import type { Repaired, RepairParts } from "./repair-environments.ts";

/** Repairs of a running service: one at a time, and none beyond its end. */
export class Repairs {
  readonly #parts: Omit<RepairParts, "say" | "signal"> & { readonly log: Log };
  readonly #stopping = new AbortController();
  #underWay: Promise<Repaired[]> | null = null;

  constructor(parts: Omit<RepairParts, "say" | "signal"> & { readonly log: Log }) {
    this.#parts = parts;
  }

  /** Installs packages again that are missing; whoever asks meanwhile gets the same answer. */
  async repair(): Promise<Repaired[]> {
    const { log } = this.#parts;
    const say = (detail: string): void => log.debug({ detail }, "reinstalling an app's packages");
    this.#underWay ??= repairEnvironments({ ...this.#parts, say, signal: this.#stopping.signal }).finally(
      () => (this.#underWay = null),
    );
    return await this.#underWay;
  }

  /** Ends what is being installed. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#underWay?.catch(() => undefined);
  }
}
