import { randomBytes, randomInt } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import { addressKey } from "../kit/ip-addresses.ts";
import type { Store } from "../store/store.ts";
import { AttemptLimiter } from "../kit/rate-limits.ts";
import type { Sessions, SignedIn } from "./sessions.ts";
import { tooMany } from "./throttle.ts";
import { hashSecret } from "./token-judge.ts";

const LIFE_MS = 10 * 60_000;
/** No vowels, so that codes form no words, and no letters that look like others. */
const LETTERS = "BCDFGHJKLMNPQRSTVWXZ";
const USER_CODE_LETTERS = 8;
/** Asking costs a row each time and needs no token. */
const ASKING = { burst: 10, gapMs: 6_000 };
const APPROVING = { burst: 10, gapMs: 6_000 };

/** How often a device may ask whether it was approved. */
export const POLL_SECONDS = 5;

/** What a device is told at the start. */
export type DeviceCodes = {
  readonly deviceCode: string;
  /** For a person to read and type. */
  readonly userCode: string;
  readonly expiresInSeconds: number;
};

/** Signs in a command line by way of a person who is signed in elsewhere. */
export class Devices {
  readonly #store: Store;
  readonly #sessions: Sessions;
  readonly #clock: Clock;
  readonly #asking: AttemptLimiter;
  readonly #approving: AttemptLimiter;

  constructor(store: Store, sessions: Sessions, clock: Clock) {
    this.#store = store;
    this.#sessions = sessions;
    this.#clock = clock;
    this.#asking = new AttemptLimiter(ASKING, clock);
    this.#approving = new AttemptLimiter(APPROVING, clock);
  }

  async ask(ip: string): Promise<DeviceCodes> {
    spend(this.#asking, addressKey(ip));
    const now = this.#clock.now();
    const deviceCode = randomBytes(32).toString("base64url");
    const letters = Array.from({ length: USER_CODE_LETTERS }, () => LETTERS[randomInt(LETTERS.length)]);
    const userCode = letters.join("");
    await this.#store.deviceCodes.insert({
      deviceHash: hashSecret(deviceCode),
      userHash: hashSecret(userCode),
      createdAt: now,
      expiresAt: now + LIFE_MS,
    });
    return {
      deviceCode,
      userCode: `${userCode.slice(0, 4)}-${userCode.slice(4)}`,
      expiresInSeconds: LIFE_MS / 1000,
    };
  }

  /** False when no device waits with that code; however it is written, only its letters count. */
  async approve(userCode: string, personId: string): Promise<boolean> {
    spend(this.#approving, personId);
    const letters = userCode.toUpperCase().replaceAll(/[^A-Z]/g, "");
    const userHash = hashSecret(letters);
    return await this.#store.deviceCodes.approve({ userHash, personId, now: this.#clock.now() });
  }

  /** Signs the device in, once, when it was approved. */
  async redeem(
    deviceCode: string,
  ): Promise<(SignedIn & { readonly refreshToken: string }) | "authorization_pending" | "expired_token"> {
    const deviceHash = hashSecret(deviceCode);
    const now = this.#clock.now();
    const code = await this.#store.deviceCodes.find(deviceHash);
    if (!code || code.expiresAt <= now) return "expired_token";
    if (code.personId === null) return "authorization_pending";
    const personId = await this.#store.deviceCodes.take({ deviceHash, now });
    return personId === null ? "expired_token" : await this.#sessions.open(personId, "device");
  }
}

function spend(limiter: AttemptLimiter, key: string): void {
  const waitMs = limiter.take(key);
  if (waitMs > 0) throw tooMany(waitMs);
}
