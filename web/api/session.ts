import { useSyncExternalStore } from "react";
import { DONE } from "../../src/shapes/common.ts";
import { SIGNED_IN, SIGNED_UP } from "../../src/shapes/people.ts";
import type { SignedInRecord } from "../../src/shapes/people.ts";
import { checked } from "../../src/shapes/shape.ts";
import type { Infer, Shape } from "../../src/shapes/shape.ts";
import { ApiError, readAnswer } from "./answer.ts";

/** Unknown until the cookie has been tried. */
export type SessionState = "unknown" | "out" | "in";

/** A token that ends this soon is replaced before it is used. */
const MARGIN_MS = 30_000;
const LOCK = "millrace-session";
/**
 * The key in `localStorage` for the id of the person who signed in. All ports of a host share cookies, so a page of an
 * app on another port can plant a session; it cannot write this origin's storage. Other people's sessions are ignored.
 */
const PERSON = "person";
/** What one page tells the others of this browser: their cookie is the same. */
const CHANNEL = "millrace-session";

/**
 * Who is signed in. The access token is in this page's memory and nowhere else; the cookie that renews it is out of
 * reach of scripts.
 */
class Session {
  #token: SignedInRecord | null = null;
  #state: SessionState = "unknown";
  #renewing: Promise<string | null> | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #others = new BroadcastChannel(CHANNEL);

  constructor() {
    this.#others.addEventListener("message", () => this.leave());
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): SessionState => this.#state;

  /** A token that is good now; null when nobody is signed in. */
  async token(): Promise<string | null> {
    if (this.#token && Date.parse(this.#token.expiresAt) - Date.now() > MARGIN_MS)
      return this.#token.accessToken;
    if (this.#state === "out") return null;
    return await this.renew();
  }

  /** Asks for a new token with the cookie. */
  async renew(): Promise<string | null> {
    this.#renewing ??= this.#ask().finally(() => (this.#renewing = null));
    return await this.#renewing;
  }

  /** Takes the answer of any way in. */
  enter(signedIn: SignedInRecord): void {
    // Somebody else has signed in on another page: nothing of what this one holds is theirs.
    if (this.#token && this.#token.personId !== signedIn.personId) location.reload();
    this.#token = signedIn;
    localStorage.setItem(PERSON, signedIn.personId);
    this.#change("in");
  }

  async signIn(email: string, password: string): Promise<void> {
    this.enter(await post(SIGNED_IN, "/v2/session", { email, password }));
  }

  async setUp(link: string, email: string, password: string): Promise<void> {
    this.enter(await post(SIGNED_IN, "/v2/setup", { link, email, password }));
  }

  async setPassword(link: string, password: string): Promise<void> {
    this.enter(await post(SIGNED_IN, "/v2/password", { link, password }));
  }

  /** Makes an account by an invitation's link. */
  async signUp(link: string, email: string, password: string): Promise<string> {
    const signedUp = await post(SIGNED_UP, "/v2/invitation/sign-up", {
      link,
      email,
      password,
    });
    this.enter(signedUp);
    return signedUp.projectId;
  }

  /** Has a link for a new password sent, if somebody has proven the address; the answer never says. */
  async forgot(email: string): Promise<void> {
    await post(DONE, "/v2/password/forgotten", { email });
  }

  /** Ends the session, on every page of this browser. */
  async signOut(): Promise<void> {
    const response = await fetch("/v2/session", { method: "DELETE" });
    // 401: there were two cookies, and the answer has deleted them.
    if (!response.ok && response.status !== 401) throw await ApiError.of(response);
    localStorage.removeItem(PERSON);
    this.#others.postMessage("out");
    this.leave();
  }

  leave(): void {
    this.#token = null;
    this.#change("out");
  }

  async #ask(): Promise<string | null> {
    // The cookie is replaced at each use, and used twice at once it would look stolen: pages take turns. Browsers
    // have no locks for pages that come without HTTPS from another machine.
    const locks = navigator.locks as LockManager | undefined;
    return locks ? await locks.request(LOCK, () => this.#refresh()) : await this.#refresh();
  }

  async #refresh(): Promise<string | null> {
    if (localStorage.getItem(PERSON) === null) {
      this.leave();
      return null;
    }
    // Kept alive, since the answer brings the next cookie: a page that is reloaded meanwhile must not lose it.
    const response = await fetch("/v2/session/refresh", { method: "POST", keepalive: true });
    if (response.status >= 500) throw await ApiError.of(response);
    const signedIn = response.ok ? checked(SIGNED_IN, await response.json()) : null;
    if (signedIn && signedIn.personId === localStorage.getItem(PERSON)) {
      this.enter(signedIn);
      return signedIn.accessToken;
    }
    this.leave();
    return null;
  }

  #change(state: SessionState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

export const session = new Session();

export function useSessionState(): SessionState {
  return useSyncExternalStore(session.subscribe, session.state);
}

async function post<S extends Shape>(shape: S, path: string, body: object): Promise<Infer<S>> {
  const headers = { "content-type": "application/json" };
  return await readAnswer(shape, await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}
