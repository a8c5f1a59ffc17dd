import { requireRole } from "../identity/principal.ts";
import type { RememberedToken, Tokens } from "../identity/tokens.ts";
import { AppError } from "../model/errors.ts";
import type { Connection } from "./connection.ts";

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i;
const CHALLENGE = { headers: { "www-authenticate": "Bearer" } };

/** Lets in who may call apps of a project. */
export class Authenticator {
  readonly #tokens: Tokens;

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  /** Throws who may not; a promise only for a token seen for the first time. */
  admit(connection: Connection, authorization: string | null, projectId: string): void | Promise<void> {
    const { shown } = connection;
    if (shown && shown.header === authorization && this.#tokens.isGood(shown.token)) {
      requireRole(shown.token.principal, projectId, "run");
      return undefined;
    }
    const text = readToken(authorization);
    const known = this.#tokens.recall(text);
    if (!known) return this.#verify(connection, authorization ?? "", text, projectId);
    connection.shown = { header: authorization ?? "", token: known };
    requireRole(known.principal, projectId, "run");
    return undefined;
  }

  async #verify(connection: Connection, header: string, text: string, projectId: string): Promise<void> {
    let token: RememberedToken;
    try {
      token = await this.#tokens.verify(text);
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "unauthorized") throw error;
      throw new AppError("unauthorized", { ...error.detail, ...CHALLENGE }, error);
    }
    connection.shown = { header, token };
    requireRole(token.principal, projectId, "run");
  }
}

function readToken(authorization: string | null): string {
  const [, token] = BEARER.exec(authorization ?? "") ?? [];
  if (token === undefined) throw new AppError("unauthorized", CHALLENGE);
  return token;
}
