import type { Changes } from "../nodes/changes.ts";
import type { Store } from "../store/store.ts";
import type { Weights } from "../store/runs/turns.ts";

type AccountWeight = { readonly projectId: string; readonly weight: number };

/**
 * The weights of service accounts, those that are not 1, as the database has them: a claim of runs needs them at once. Other
 * nodes learn of a change within a second.
 */
export class AccountWeights {
  readonly #store: Pick<Store, "accounts">;
  readonly #byAccount = new Map<string, AccountWeight>();
  readonly #byProject = new Map<string, Weights>();

  constructor(store: Pick<Store, "accounts">) {
    this.#store = store;
  }

  async start(): Promise<void> {
    await this.#read(null);
  }

  /** By account. */
  of(projectId: string): Weights {
    return this.#byProject.get(projectId) ?? NONE;
  }

  /** An account may have another weight. */
  async learn(accountId: string): Promise<void> {
    await this.#read([accountId]);
  }

  /** Learns what other nodes change. */
  follow(changes: Pick<Changes, "on" | "onReset">): void {
    changes.on("account", (accountIds) => (accountIds.length > 0 ? this.#read(accountIds) : undefined));
    changes.onReset(() => this.#read(null));
  }

  /** Of these accounts, or of all. */
  async #read(accountIds: readonly string[] | null): Promise<void> {
    const found = await this.#store.accounts.weights(accountIds);
    for (const id of accountIds ?? [...this.#byAccount.keys()]) this.#set(id, null);
    for (const { id, ...weight } of found) this.#set(id, weight);
  }

  #set(id: string, weight: AccountWeight | null): void {
    const before = this.#byAccount.get(id);
    if (before) {
      const { [id]: _gone, ...others } = this.of(before.projectId);
      if (Object.keys(others).length > 0) this.#byProject.set(before.projectId, others);
      else this.#byProject.delete(before.projectId);
      this.#byAccount.delete(id);
    }
    if (!weight) return;
    this.#byAccount.set(id, weight);
    this.#byProject.set(weight.projectId, { ...this.of(weight.projectId), [id]: weight.weight });
  }
}

const NONE: Weights = {};
