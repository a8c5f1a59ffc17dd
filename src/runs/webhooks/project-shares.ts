type Held = { attempts: number; bytes: number };

/**
 * What each project may have under way at once: as much as is left for all others. One project alone gets half of all
 * places, and however many take all that they may, some are left: hosts that never answer cost nobody else a place.
 */
export class ProjectShares {
  readonly #maxAttempts: number;
  readonly #maxBytes: number;
  readonly #held = new Map<string, Held>();
  #attempts = 0;
  #bytes = 0;

  constructor(maxAttempts: number, maxBytes: number) {
    this.#maxAttempts = maxAttempts;
    this.#maxBytes = maxBytes;
  }

  /** Whether an attempt with a body of that size may begin; a project's only one may be of any. */
  hasRoom(projectId: string, bodyBytes: number): boolean {
    const { attempts, bytes } = this.#held.get(projectId) ?? { attempts: 0, bytes: 0 };
    if (attempts >= this.#maxAttempts - this.#attempts) return false;
    return attempts === 0 || bytes + bodyBytes <= this.#maxBytes - this.#bytes;
  }

  take(projectId: string, bodyBytes: number): void {
    const held = this.#held.get(projectId) ?? { attempts: 0, bytes: 0 };
    this.#held.set(projectId, held);
    held.attempts += 1;
    held.bytes += bodyBytes;
    this.#attempts += 1;
    this.#bytes += bodyBytes;
  }

  release(projectId: string, bodyBytes: number): void {
    const held = this.#held.get(projectId);
    if (!held) throw new Error(`no attempt of ${projectId} is under way`);
    held.attempts -= 1;
    held.bytes -= bodyBytes;
    this.#attempts -= 1;
    this.#bytes -= bodyBytes;
    if (held.attempts === 0) this.#held.delete(projectId);
  }
}
