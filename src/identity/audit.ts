import type { Clock } from "../kit/clock.ts";
import { auditHash, NO_HASH } from "../store/accounts/audit.ts";
import type { Store } from "../store/store.ts";
import type { Principal } from "./principal.ts";

/** A change: who made it, and the state before and after it, without secrets. */
export type Change = {
  readonly projectId: string | null;
  /** A noun and a verb: `service-account.create`. */
  readonly action: string;
  /** The id of what was changed. */
  readonly target: string;
  readonly before: unknown;
  readonly after: unknown;
  /** Null for the service itself, and for requests without a token. */
  readonly principal: Principal | null;
  readonly ip: string;
  readonly requestId: string;
};

/** A recorded change. */
export type AuditRecord = Omit<Change, "projectId" | "principal"> & {
  readonly number: number;
  readonly createdAt: number;
  readonly actor: string | null;
};

/** The audit log. Each entry's hash covers the hash before it, so that `millrace doctor` finds later changes. */
export class Audit {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Appends run one at a time; a retry resolves conflicts with other processes. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Resolves when the change is stored. */
  async record(change: Change): Promise<void> {
    const turn = this.#last.then(() => this.#append(change));
    this.#last = turn.catch(() => undefined);
    await turn;
  }

  /** A project's changes, newest first. */
  async list(page: { projectId: string; limit: number; before?: number }): Promise<AuditRecord[]> {
    const entries = await this.#store.auditEntries.list(page);
    return entries.map(({ number, createdAt, entry }) => ({ ...JSON.parse(entry), number, createdAt }));
  }

  async #append(change: Change): Promise<void> {
    const { projectId, action, target, before, after, principal, ip, requestId } = change;
    const entry = JSON.stringify({ actor: actorOf(principal), action, target, before, after, ip, requestId });
    for (;;) {
      const last = await this.#store.auditEntries.last();
      const row = { number: (last?.number ?? 0) + 1, projectId, createdAt: this.#clock.now(), entry };
      const hash = auditHash(last?.hash ?? NO_HASH, row);
      if (await this.#store.auditEntries.append({ ...row, hash })) return;
    }
  }
}

function actorOf(principal: Principal | null): string | null {
  if (!principal) return null;
  return principal.projectId === null ? principal.personId : principal.accountId;
}
