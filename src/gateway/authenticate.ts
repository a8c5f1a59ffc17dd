import type { ServerResponse } from "node:http";
import { type AccountPrincipal, bearerToken, type Principal, requireRole } from "../identity/principal.ts";
import { TokenWatch } from "../identity/token-watch.ts";
import type { RememberedToken, Tokens } from "../identity/tokens.ts";
import type { Clock } from "../kit/clock.ts";
import { MinuteLimiter } from "../kit/rate-limits.ts";
import { AppError } from "../model/errors.ts";
import type { Connection } from "./connection.ts";
import type { RequestHead } from "./request-head.ts";
import type { AppRoute } from "./route.ts";

/** What a token is used for. `run`: one that has started; `nothing`: an address without a resource. */
export type Use = "function" | "public" | "server" | "run" | "document" | "nothing";

/** What a permission depends on, besides the principal. */
type Asked = {
  readonly head: RequestHead;
  /** `functionName` is set when a function is called. */
  readonly route: AppRoute & { readonly functionName?: string };
};

type Asking = Asked & { readonly connection: Connection };
type Held = Asked & { readonly exchange: { readonly response: ServerResponse } };

/** Authenticates callers and checks what they may do with the apps of a project. */
export class Authenticator {
  readonly #tokens: Tokens;
  readonly #watch: TokenWatch;
  readonly #pace: MinuteLimiter;

  constructor(tokens: Tokens, clock: Clock) {
    this.#tokens = tokens;
    this.#watch = new TokenWatch(tokens, clock);
    this.#pace = new MinuteLimiter(clock);
  }

  /** Throws if the request is not allowed. A promise only for a token that is not cached. */
  admit(
    asking: Asking,
    use: Use,
    authorization: string | null = asking.head.authorization,
  ): RememberedToken | Promise<RememberedToken> {
    const { connection } = asking;
    const { shown } = connection;
    if (shown && shown.header === authorization && this.#tokens.isGood(shown.token))
      return this.#enter(asking, use, shown.token);
    const text = bearerToken(authorization);
    const known = this.#tokens.recall(text);
    if (!known) return this.#verify(asking, use, authorization ?? "", text);
    connection.shown = { header: authorization ?? "", token: known };
    return this.#enter(asking, use, known);
  }

  /** Checks again after the body has arrived, so that a token revoked meanwhile starts no run. */
  confirm(asked: Asked, use: Use, token: RememberedToken): void | Promise<void> {
    if (this.#tokens.isGood(token)) return requireRight(token.principal, asked, use);
    return this.#tokens.admit(token.token).then(({ principal }) => requireRight(principal, asked, use));
  }

  /** Calls `onRefused` if the permission ends before the answer does. */
  hold(held: Held, use: Use, token: RememberedToken, onRefused: (error: AppError) => void): void {
    const release = this.#watch.hold(token, (principal) => requireRight(principal, held, use), onRefused);
    held.exchange.response.once("close", release);
  }

  async #verify(asking: Asking, use: Use, header: string, text: string): Promise<RememberedToken> {
    const token = await this.#tokens.verify(text);
    asking.connection.shown = { header, token };
    return this.#enter(asking, use, token);
  }

  #enter(asking: Asking, use: Use, token: RememberedToken): RememberedToken {
    const { principal } = token;
    requireRight(principal, asking, use);
    if (principal.role === "call" && (use === "function" || use === "server")) this.#count(principal);
    asking.connection.know(asking.route.projectId);
    return token;
  }

  /** Throws `too_many_requests`. The limit applies per end user. */
  #count({ limits, caller: { accountId, user } }: AccountPrincipal): void {
    const max = limits?.callsPerMinute ?? null;
    if (max === null) return;
    const waitMs = this.#pace.take(`${accountId}\n${user ?? ""}`, max);
    if (waitMs === 0) return;
    throw new AppError("too_many_requests", {
      message: `This token may make ${max} calls a minute.`,
      headers: { "retry-after": String(Math.ceil(waitMs / 1000)) },
    });
  }
}

/** Throws `forbidden` unless the principal may do this. Ownership of runs is checked by the run's handlers. */
function requireRight(principal: Principal, { head, route }: Asked, use: Use): void {
  if (principal.role !== "call") return requireRole(principal, route.projectId, "run");
  requireRole(principal, route.projectId, "call");
  const { limits } = principal;
  if (!limits) throw new AppError("forbidden");
  const { apps, functions, origins } = limits;
  // Before any check of the app, so that the answer does not tell whether it exists.
  if (!apps.includes(route.appName)) throw limitedTo("other apps");
  if (use === "document") throw new AppError("forbidden");
  if (use === "server" && functions !== null)
    throw limitedTo("functions by name, and this app is a server, which has none");
  const isFunction = use === "function" || use === "public";
  if (isFunction && functions !== null && !functions.includes(route.functionName ?? ""))
    throw limitedTo("other functions");
  // Browsers send Origin with every cross-site request; without it, no page of another site is asking.
  if (origins !== null && head.origin !== null && !origins.includes(head.origin))
    throw limitedTo("pages of other origins");
}

/** Throws `forbidden` for a token that may make only so many calls a minute: a batch is up to a million calls. */
export function checkMayBatch({ principal }: RememberedToken): void {
  const max = principal.role === "call" ? (principal.limits?.callsPerMinute ?? null) : null;
  if (max !== null) throw limitedTo(`${max} calls a minute, so it cannot send batches`);
}

function limitedTo(what: string): AppError {
  return new AppError("forbidden", { message: `This token is limited to ${what}.` });
}
