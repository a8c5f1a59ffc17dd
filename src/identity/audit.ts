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

/** Which changes are wanted. */
export type AuditFilter = {
  /** The id of an account or a person. */
  readonly actor?: string;
  /** How the action begins, such as `secrets`. */
  readonly action?: string;
  readonly target?: string;
  /** Made at that time or later, in epoch milliseconds. */
  readonly fromMs?: number;
  /** Made before that time. */
  readonly toMs?: number;
};

/** No index covers a filter: so many entries are read at a time, and so many for one page. */
const SEARCHED = 500;
const MAX_SEARCHED = 5_000;

function isWanted(entry: AuditRecord, { actor, action, target, fromMs, toMs }: AuditFilter): boolean {
  return (
    (actor === undefined || entry.actor === actor) &&
    (action === undefined || entry.action.startsWith(action)) &&
    (target === undefined || entry.target === target) &&
    (fromMs === undefined || entry.createdAt >= fromMs) &&
    (toMs === undefined || entry.createdAt < toMs)
  );
}

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

  /** The same, of those that the filter lets through; `next` is where the next page begins, null at the end. */
  async search(
    { projectId, limit, before }: { projectId: string; limit: number; before?: number },
    filter: AuditFilter,
  ): Promise<{ entries: AuditRecord[]; next: number | null }> {
    const found: AuditRecord[] = [];
    const isNarrow = Object.keys(filter).length > 0;
    const size = isNarrow ? SEARCHED : limit + 1;
    let last = before;
    for (let seen = 0; seen < MAX_SEARCHED; seen += size) {
      const entries = await this.list({
        projectId,
        limit: size,
        ...(last !== undefined && { before: last }),
      });
      found.push(...entries.filter((entry) => isWanted(entry, filter)));
      if (found.length > limit) return { entries: found.slice(0, limit), next: found[limit - 1]!.number };
      if (entries.length < size) return { entries: found, next: null };
      last = entries.at(-1)!.number;
    }
    return { entries: found, next: last ?? null };
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
