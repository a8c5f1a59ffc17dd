import { randomBytes, randomInt } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import { AttemptLimiter } from "../kit/rate-limits.ts";
import type { Store } from "../store/store.ts";
import type { Sessions } from "./sessions.ts";
import { spend } from "./throttle.ts";
import { hashSecret } from "./token-judge.ts";

const LIFE_MS = 10 * 60_000;
/** Without vowels, so that codes form no words, and without letters that look alike. */
const LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const USER_CODE_LETTERS = 8;
/** For each network address that asks for codes, and each person who approves them. */
const ATTEMPTS = { burst: 10, gapMs: 6_000 };

/** How often a device may poll for approval. */
export const POLL_SECONDS = 5;

type DeviceParts = { readonly store: Store; readonly sessions: Sessions; readonly clock: Clock };

/** Signs in a device, such as the command line, after a person who is signed in has approved its code. */
export class Devices {
  readonly #parts: DeviceParts;
  readonly #asking: AttemptLimiter;
  readonly #approving: AttemptLimiter;

  constructor(parts: DeviceParts) {
    this.#parts = parts;
    this.#asking = new AttemptLimiter(ATTEMPTS, parts.clock);
    this.#approving = new AttemptLimiter(ATTEMPTS, parts.clock);
  }

  /** The codes of a new sign-in; a person enters `userCode`. */
  async ask(ip: string) {
    spend(this.#asking, addressKey(ip));
    const now = this.#parts.clock.now();
    const deviceCode = randomBytes(32).toString("base64url");
    const letters = Array.from({ length: USER_CODE_LETTERS }, () => LETTERS[randomInt(LETTERS.length)]);
    const code = letters.join("");
    await this.#parts.store.deviceCodes.insert({
      deviceHash: hashSecret(deviceCode),
      userHash: hashSecret(code),
      createdAt: now,
      expiresAt: now + LIFE_MS,
    });
    const userCode = `${code.slice(0, 4)}-${code.slice(4)}`;
    return { deviceCode, userCode, expiresInSeconds: LIFE_MS / 1000 };
  }

  /** False if no device waits with that code; anything but letters is ignored. */
  async approve(userCode: string, personId: string): Promise<boolean> {
    spend(this.#approving, personId);
    const letters = userCode.toUpperCase().replaceAll(/[^A-Z]/g, "");
    const userHash = hashSecret(letters);
    return await this.#parts.store.deviceCodes.approve({ userHash, personId, now: this.#parts.clock.now() });
  }

  /** Signs an approved device in; works once. */
  async redeem(deviceCode: string) {
    const deviceHash = hashSecret(deviceCode);
    const now = this.#parts.clock.now();
    const code = await this.#parts.store.deviceCodes.find(deviceHash);
    if (!code || code.expiresAt <= now) return "expired_token";
    if (code.personId === null) return "authorization_pending";
    const personId = await this.#parts.store.deviceCodes.take({ deviceHash, now });
    return personId === null ? "expired_token" : await this.#parts.sessions.open(personId, "device");
  }
}
