import type { Clock } from "../kit/clock.ts";
import { pause } from "../kit/pause.ts";
import type { RunKey } from "../model/run.ts";
import type { Store } from "../store/store.ts";
import type { AppKey, Asker, Elsewhere, Whereabouts } from "./elsewhere.ts";
import type { Owners } from "./owners.ts";
import type { Passed } from "./passage.ts";
import type { Peer } from "./peer.ts";
import type { Roster } from "./roster.ts";

export type WhereaboutsParts = {
  readonly store: Pick<Store, "runs">;
  readonly clock: Clock;
  readonly owners: Owners;
  readonly roster: Roster;
  readonly self: Peer;
};

/** How long a call waits for the next owner of its app: longer than the lease of a node that has died. */
const PATIENCE_MS = 12_000;
const LOOK_AGAIN_MS = 100;

/** Where apps and runs are, by what the database and the other nodes say. */
export class NodeWhereabouts implements Elsewhere {
  readonly self: Peer;
  readonly #parts: WhereaboutsParts;

  constructor(parts: WhereaboutsParts) {
    this.#parts = parts;
    this.self = parts.self;
  }

  async find({ projectId, appName: name }: AppKey, asker: Asker): Promise<Whereabouts | null> {
    const found = await this.#parts.owners.find({ projectId, name }, asker);
    return found?.kind === "there" ? { kind: "there", peer: found.node } : found;
  }

  /** A node that was not reached may be dead: its apps have another owner once its lease has passed. */
  async retry(app: AppKey, peer: Peer, why: Passed, signal: AbortSignal): Promise<Whereabouts | null> {
    const { owners, clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (!signal.aborted && clock.monotonic() < until) {
      owners.forget({ projectId: app.projectId, name: app.appName });
      const found = await this.find(app, "caller");
      if (found?.kind !== "there" || found.peer.id !== peer.id || why === "moved") return found;
      await pause(clock, LOOK_AGAIN_MS, signal);
    }
    return null;
  }

  async ofRun(run: RunKey): Promise<Peer | null> {
    const { store, roster } = this.#parts;
    const owner = await store.runs.owner(run);
    if (owner === null || owner === this.self.id) return null;
    return roster.find(owner) ?? null;
  }
}
