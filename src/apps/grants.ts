import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";

/** Rights that a URL carries by itself: sealed, each for one purpose and until a time; they are stored nowhere. */
export class Grants {
  readonly #seal: Seal;
  readonly #clock: Clock;

  constructor(seal: Seal, clock: Clock) {
    this.#seal = seal;
    this.#clock = clock;
  }

  give(purpose: string, content: object, lifeMs: number): string {
    const text = JSON.stringify({ content, expiresAt: this.#clock.now() + lifeMs });
    return this.#seal.close(Buffer.from(text), contextOf(purpose)).toString("base64url");
  }

  /** What was given for that purpose; null for anything else, and once it has expired. */
  read(purpose: string, grant: string): unknown {
    const sealed = Buffer.from(grant, "base64url");
    // Base64 is lenient: the same bytes in another spelling are no grant of ours.
    if (sealed.toString("base64url") !== grant) return null;
    try {
      const text = this.#seal.open(sealed, contextOf(purpose)).toString();
      const { content, expiresAt } = JSON.parse(text) as { content: unknown; expiresAt: number };
      return this.#clock.now() < expiresAt ? content : null;
    } catch {
      return null; // Not sealed here, or for another purpose.
    }
  }
}

function contextOf(purpose: string): string {
  return `grant/${purpose}`;
}
