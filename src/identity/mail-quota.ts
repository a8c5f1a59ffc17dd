import type { Clock } from "../kit/clock.ts";
import { AttemptLimiter } from "../kit/rate-limits.ts";
import { tooMany } from "./throttle.ts";

/** Mails to one address: nobody's mailbox is flooded. */
const TO_ONE = { burst: 3, gapMs: 600_000 };
/** Mails that one project, person or network address causes; many people may sit behind one. */
const BY_ONE = { burst: 50, gapMs: 30_000 };

type Spent = { readonly to: string; readonly by: readonly string[] };

/** Bounds the mails that others can have us send; it counts the same whether or not one is sent. */
export class MailQuota {
  readonly #to: AttemptLimiter;
  readonly #by: AttemptLimiter;

  constructor(clock: Clock) {
    this.#to = new AttemptLimiter(TO_ONE, clock);
    this.#by = new AttemptLimiter(BY_ONE, clock);
  }

  /** Counts a mail of a kind; throws `too_many_requests`. */
  spend(kind: "invitation" | "proof" | "password", { to, by }: Spent): void {
    const waits = [...by.map((one) => this.#by.take(`${kind} ${one}`)), this.#to.take(`${kind} ${to}`)];
    const waitMs = Math.max(...waits);
    if (waitMs > 0) throw tooMany(waitMs);
  }
}
