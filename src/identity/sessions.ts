import { randomBytes, randomUUID } from "node:crypto";
import type { Clock } from "../kit/clock.ts";
import type { PersonSession } from "../store/accounts/sessions.ts";
import type { Store } from "../store/store.ts";
import { hashSecret } from "./token-judge.ts";
import type { Tokens } from "./tokens.ts";

/** A session that is unused for this long ends. */
const IDLE_MS = 30 * 86_400_000;
/** Two tabs may refresh at the same time; after this long, the use of a previous token counts as theft. */
const CROSSING_MS = 10_000;
const FORM = /^mrr_([\w-]{22})([\w-]{43})$/;

export type SignedIn = {
  readonly personId: string;
  readonly accessToken: string;
  /** Of the access token. */
  readonly expiresAt: number;
  /** Null if the current one stays valid, or a newer one is already on its way. */
  readonly refreshToken: string | null;
};

type SessionParts = { readonly store: Store; readonly tokens: Tokens; readonly clock: Clock };

/**
 * Sessions of people. A browser's refresh token is replaced at each use, and an old one that is used again ends
 * the session. A device's stays: the exchange it is made for has no place for a new one.
 */
export class Sessions {
  readonly #parts: SessionParts;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  async open(personId: string, kind: PersonSession["kind"]) {
    const now = this.#parts.clock.now();
    const id = randomUUID();
    const [family, secret] = [randomText(16), randomText(32)];
    await this.#parts.store.sessions.insert({
      id,
      personId,
      kind,
      familyHash: hashSecret(family),
      secretHash: hashSecret(secret),
      createdAt: now,
      refreshedAt: now,
      expiresAt: now + IDLE_MS,
    });
    return { ...this.#access(personId, id), refreshToken: `mrr_${family}${secret}` };
  }

  /** A new access token for a refresh token of that kind; null if the refresh token is invalid. */
  async refresh(refreshToken: string, kind: PersonSession["kind"]): Promise<SignedIn | null> {
    const [, family, secret] = FORM.exec(refreshToken) ?? [];
    if (family === undefined || secret === undefined) return null;
    const now = this.#parts.clock.now();
    const next = kind === "browser" ? randomText(32) : null;
    const refreshed = await this.#parts.store.sessions.refresh({
      kind,
      familyHash: hashSecret(family),
      secretHash: hashSecret(secret),
      nextHash: next === null ? null : hashSecret(next),
      now,
      expiresAt: now + IDLE_MS,
      graceMs: CROSSING_MS,
    });
    if (refreshed.result === "unknown") return null;
    const { result, id, personId } = refreshed;
    if (result === "reused") {
      this.#parts.tokens.forgetSubject(personId);
      return null;
    }
    const isNew = result === "fresh" && next !== null;
    return { ...this.#access(personId, id), refreshToken: isNew ? `mrr_${family}${next}` : null };
  }

  /** Ends the session of a refresh token; null if there is none. */
  async endByToken(refreshToken: string): Promise<Pick<PersonSession, "id" | "personId"> | null> {
    const family = FORM.exec(refreshToken)?.[1];
    if (family === undefined) return null;
    const ended = await this.#parts.store.sessions.endByFamily(hashSecret(family));
    if (ended) this.#parts.tokens.forgetSubject(ended.personId);
    return ended;
  }

  /** False if the person has no such session. */
  async end(personId: string, id: string): Promise<boolean> {
    const isEnded = await this.#parts.store.sessions.end({ id, personId });
    this.#parts.tokens.forgetSubject(personId);
    return isEnded;
  }

  /** Ends all sessions of a person but one. */
  async endOthers(personId: string, keptId: string | null): Promise<void> {
    await this.#parts.store.sessions.endOthers({ personId, keptId });
    this.#parts.tokens.forgetSubject(personId);
  }

  async list(personId: string): Promise<PersonSession[]> {
    return await this.#parts.store.sessions.list({ personId, now: this.#parts.clock.now() });
  }

  #access(personId: string, sessionId: string) {
    const { token, expiresAt } = this.#parts.tokens.issueAccess(personId, sessionId);
    return { personId, accessToken: token, expiresAt };
  }
}

function randomText(bytes: number): string {
  return randomBytes(bytes).toString("base64url");
}
