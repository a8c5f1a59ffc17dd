import { type Quotas, readQuotas } from "../../model/usage.ts";
import type { Changes } from "../../nodes/changes.ts";
import type { Store } from "../../store/store.ts";

/** The quotas of projects, of those that have some, as the database has them. Other nodes learn of a change within a second. */
export class ProjectQuotas {
  readonly #store: Pick<Store, "projects">;
  readonly #byProject = new Map<string, Quotas>();

  constructor(store: Pick<Store, "projects">) {
    this.#store = store;
  }

  async start(): Promise<void> {
    await this.#read(null);
  }

  /** Whether no project has any: then a call does not look for its own. */
  get isEmpty(): boolean {
    return this.#byProject.size === 0;
  }

  of(projectId: string): Quotas | null {
    return this.#byProject.get(projectId) ?? null;
  }

  /** A project may have other ones. */
  async learn(projectId: string): Promise<void> {
    await this.#read([projectId]);
  }

  /** Learns what other nodes change. */
  follow(changes: Pick<Changes, "on" | "onReset">): void {
    changes.on("project", (projectIds) => (projectIds.length > 0 ? this.#read(projectIds) : undefined));
    changes.onReset(() => this.#read(null));
  }

  /** Of these projects, or of all. */
  async #read(projectIds: readonly string[] | null): Promise<void> {
    const found = await this.#store.projects.quotas(projectIds);
    for (const id of projectIds ?? [...this.#byProject.keys()]) this.#byProject.delete(id);
    for (const { id, quotas: stored } of found) {
      const quotas = readQuotas(stored);
      if (quotas) this.#byProject.set(id, quotas);
    }
  }
}
