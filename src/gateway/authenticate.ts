import { bearerToken } from "../identity/bearer.ts";
import { requireRole } from "../identity/principal.ts";
import type { Tokens } from "../identity/tokens.ts";
import type { Connection } from "./connection.ts";

/** Decides who may call the apps of a project. */
export class Authenticator {
  readonly #tokens: Tokens;

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  /** Throws if the caller may not; returns a promise only for a token seen for the first time. */
  admit(connection: Connection, authorization: string | null, projectId: string): void | Promise<void> {
    const { shown } = connection;
    if (shown && shown.header === authorization && this.#tokens.isGood(shown.token)) {
      requireRole(shown.token.principal, projectId, "run");
      connection.know(projectId);
      return undefined;
    }
    const text = bearerToken(authorization);
    const known = this.#tokens.recall(text);
    if (!known) return this.#verify(connection, authorization ?? "", text, projectId);
    connection.shown = { header: authorization ?? "", token: known };
    requireRole(known.principal, projectId, "run");
    connection.know(projectId);
    return undefined;
  }

  async #verify(connection: Connection, header: string, text: string, projectId: string): Promise<void> {
    const token = await this.#tokens.verify(text);
    connection.shown = { header, token };
    requireRole(token.principal, projectId, "run");
    connection.know(projectId);
  }
}
