import type { Clock } from "../kit/clock.ts";
import { Turns } from "../kit/concurrency.ts";
import { auditHash, NO_HASH } from "../store/accounts/audit.ts";
import type { Store } from "../store/store.ts";
import { type Principal, subjectOf } from "./principal.ts";

/** A change: who made it, and the state before and after it, without secrets. */
export type Change = {
  readonly projectId: string | null;
  /** A noun and a verb: `service-account.create`. */
  readonly action: string;
  /** The id of the changed object. */
  readonly target: string;
  readonly before: unknown;
  readonly after: unknown;
  /** Null for the service itself, and for requests without a token. */
  readonly principal: Principal | null;
  readonly ip: string;
  readonly requestId: string;
};

type AuditRecord = Omit<Change, "projectId" | "principal"> & {
  readonly number: number;
  readonly createdAt: number;
  readonly actor: string | null;
};

/** The audit log. Each entry's hash covers the hash before it, so that `millrace doctor` finds later changes. */
export class Audit {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Appends run one at a time; a retry resolves conflicts with other processes. */
  readonly #turns = new Turns<"append">();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Resolves when the change is stored. */
  async record(change: Change): Promise<void> {
    await this.#turns.take("append", () => this.#append(change));
  }

  /** A project's changes, newest first. */
  async list(page: { projectId: string; limit: number; before?: number }): Promise<AuditRecord[]> {
    const entries = await this.#store.auditEntries.list(page);
    return entries.map(({ number, createdAt, entry }) => ({ ...JSON.parse(entry), number, createdAt }));
  }

  async #append(change: Change): Promise<void> {
    const { projectId, action, target, before, after, principal, ip, requestId } = change;
    const actor = principal && subjectOf(principal);
    const entry = JSON.stringify({ actor, action, target, before, after, ip, requestId });
    for (;;) {
      const last = await this.#store.auditEntries.last();
      const row = { number: (last?.number ?? 0) + 1, projectId, createdAt: this.#clock.now(), entry };
      const hash = auditHash(last?.hash ?? NO_HASH, row);
      if (await this.#store.auditEntries.append({ ...row, hash })) return;
    }
  }
}
