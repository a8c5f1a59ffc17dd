import type { Clock } from "../kit/clock.ts";
import { pause } from "../kit/pause.ts";
import { AppError } from "../model/errors.ts";
import type { RunKey } from "../model/run.ts";
import type { Store } from "../store/store.ts";
import type { AppKey, Asker, Elsewhere, Whereabouts } from "./elsewhere.ts";
import type { Owners } from "./owners.ts";
import type { Passed } from "./passage.ts";
import type { Peer } from "./peer.ts";
import { Places, textOf } from "./places.ts";
import type { Roster } from "./roster.ts";
import type { NodeTalk } from "./talk.ts";

export type WhereaboutsParts = {
  readonly store: Pick<Store, "runs" | "appOwners">;
  readonly clock: Clock;
  readonly owners: Owners;
  readonly roster: Roster;
  readonly self: Peer;
  readonly talk: Pick<NodeTalk, "holdsRun" | "dropped">;
};

/** How long a call waits until it is known who has its app: longer than the lease of a node that has died. */
const PATIENCE_MS = 12_000;
const LOOK_AGAIN_MS = 200;
/** Between two looks for another owner than the one that was not reached. */
const ASK_AGAIN_MS = 100;
const MAX_KNOWN = 50_000;

/** Where apps and runs are, by what the database and the other nodes say. */
export class NodeWhereabouts implements Elsewhere {
  readonly self: Peer;
  readonly #parts: WhereaboutsParts;
  readonly #places: Places;
  /** The nodes of other nodes' apps, by project and name. A caller who is told that one moved has it looked up again. */
  readonly #known = new Map<string, string>();

  constructor(parts: WhereaboutsParts) {
    this.#parts = parts;
    this.self = parts.self;
    this.#places = new Places(parts.store);
  }

  async find({ projectId, appName: name }: AppKey, asker: Asker): Promise<Whereabouts | null> {
    const { roster, owners, clock } = this.#parts;
    const app = { projectId, name };
    const text = textOf(app);
    const known = roster.find(this.#known.get(text) ?? "");
    if (known && !known.isLeaving && asker !== "node") return { kind: "there", peer: known };
    const until = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < until) {
      const place = await this.#places.find(app);
      if (!place) return null;
      const found = await owners.settle(place, asker === "node");
      if (found?.kind === "there") this.#know(text, found.peer.id);
      if (found) return found;
      await pause(clock, LOOK_AGAIN_MS);
    }
    throw new AppError("app_not_ready", { headers: { "retry-after": "1" } });
  }

  /** A node that was not reached may be dead: its apps have another owner once its lease has passed. */
  async retry(app: AppKey, peer: Peer, why: Passed, signal: AbortSignal): Promise<Whereabouts | null> {
    const { clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (!signal.aborted && clock.monotonic() < until) {
      this.#known.delete(textOf({ projectId: app.projectId, name: app.appName }));
      const found = await this.find(app, "caller");
      if (found?.kind !== "there" || found.peer.id !== peer.id || why === "moved") return found;
      await pause(clock, ASK_AGAIN_MS, signal);
    }
    return null;
  }

  async ofRun(run: RunKey): Promise<Peer | null> {
    const { store, roster } = this.#parts;
    const owner = await store.runs.owner(run);
    if (owner === null || owner === this.self.id) return null;
    return roster.find(owner) ?? null;
  }

  async holderOf(run: RunKey): Promise<Peer | null> {
    const { roster, talk } = this.#parts;
    const others = roster.all.filter(({ id }) => id !== this.self.id);
    const answers = await Promise.allSettled(others.map((node) => talk.holdsRun(node, run)));
    const holder = others.find((_, i) => answers[i]?.status === "fulfilled" && answers[i].value);
    if (holder) return holder;
    const silent = answers.find(({ status }) => status === "rejected");
    if (!silent) return null;
    throw new AppError(
      "storage_unavailable",
      {
        message: "The run may be in progress on a node that does not answer right now; try again shortly.",
        headers: { "retry-after": "1" },
      },
      silent,
    );
  }

  tellDropped(nodeId: string, requestId: string): void {
    const { roster, talk } = this.#parts;
    const node = roster.find(nodeId);
    // A node that cannot be told has lost its connections to this one, or will.
    if (node) void talk.dropped(node, requestId).catch(() => {});
  }

  #know(text: string, nodeId: string): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(text, nodeId);
  }
}
