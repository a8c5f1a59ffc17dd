import { Batcher } from "../../kit/batcher.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { AppPlace } from "../../model/node.ts";
import type { RunKey } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import type { AppLocation, Owners } from "../owners.ts";
import type { Peer, Peers } from "../peers.ts";
import type { Roster } from "../roster.ts";
import type { NodeTalk } from "../talk.ts";

/** Which app a request is about. */
export type AppKey = { readonly projectId: string; readonly appName: string };

/** Who asks: a caller, or a node that forwarded a request here. For a node, this one takes an app without an owner. */
type Asker = "caller" | "node";

/** What forwarding asks of the locator. */
export type Locator = Pick<AppLocator, "find" | "settle" | "retry" | "ofRun" | "holderOf" | "tellDropped">;

/** What forwarding a request needs. */
export type Others = { readonly locator: Locator; readonly peers: Peers };

/** Why a node did not start a request: it does not own the app, or could not be reached. */
type Unsent = "moved" | "unreached";

type LocatorParts = {
  readonly store: Pick<Store, "runs" | "appOwners">;
  readonly clock: Clock;
  readonly owners: Owners;
  readonly roster: Roster;
  readonly self: Peer;
  readonly talk: Pick<NodeTalk, "holdsRun" | "dropped">;
};

/** How long a call waits for its app's owner to be known: longer than the lease of a dead node. */
const PATIENCE_MS = 12_000;
const LOOK_AGAIN_MS = 200;
/** Between two lookups of a new owner after the old one could not be reached. */
const ASK_AGAIN_MS = 100;
const MAX_KNOWN = 50_000;
const NAMES_AT_ONCE = 100;

/** Finds the nodes of apps and runs, from the database and the other nodes. */
export class AppLocator {
  readonly #parts: LocatorParts;
  readonly #place: (app: AppKey) => Promise<AppPlace | null>;
  /** Cached owners of remote apps, by project and name. Dropped when a node answers that the app has moved. */
  readonly #known = new Map<string, string>();

  constructor(parts: LocatorParts) {
    this.#parts = parts;
    this.#place = placeFinder(parts.store);
  }

  /** The app's owner, or the node that should take it; null if there is no such app. Changes nothing. */
  async find(app: AppKey): Promise<AppLocation | null> {
    return await this.#look(app, (place) => this.#parts.owners.locate(place, false));
  }

  /** The app's owner, after this node has taken it if it should; null if there is no such app. */
  async settle(app: AppKey, asker: Asker): Promise<AppLocation | null> {
    const { roster, owners } = this.#parts;
    const known = roster.find(this.#known.get(textOf(app)) ?? "");
    if (known && !known.isLeaving && asker !== "node") return { kind: "there", peer: known };
    return await this.#look(app, (place) => owners.settle(place, asker === "node"));
  }

  /**
   * Settles again after a peer did not have the app or could not be reached. A peer that is dead loses its apps when its
   * lease ends: waits for that; null if no new owner appears in time.
   */
  async retry(app: AppKey, peer: Peer, why: Unsent, signal: AbortSignal): Promise<AppLocation | null> {
    const { clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (!signal.aborted && clock.monotonic() < until) {
      this.#known.delete(textOf(app));
      const found = await this.find(app);
      if (found?.kind !== "there" || found.peer.id !== peer.id || why === "moved")
        return found && (await this.settle(app, "caller"));
      await pause(clock, ASK_AGAIN_MS, signal);
    }
    return null;
  }

  /** The other living node that executes a claimed run; null if none. For runs that are not in progress here. */
  async ofRun(run: RunKey): Promise<Peer | null> {
    const { store, roster } = this.#parts;
    const owner = await store.runs.owner(run);
    if (owner === null || owner === this.#parts.self.id) return null;
    return roster.find(owner) ?? null;
  }

  /**
   * The other living node that has a run of which nothing is stored: only the node that executes a call or stream knows
   * of it, and it may have handed the app over since. Throws if a node does not answer.
   */
  async holderOf(run: RunKey): Promise<Peer | null> {
    const { roster, talk } = this.#parts;
    const others = roster.all.filter(({ id }) => id !== this.#parts.self.id);
    const answers = await Promise.allSettled(others.map((node) => talk.holdsRun(node, run)));
    const holder = others.find((_, i) => answers[i]?.status === "fulfilled" && answers[i].value);
    if (holder) return holder;
    const silent = answers.find(({ status }) => status === "rejected");
    if (!silent) return null;
    const message = "The run may be in progress on a node that does not answer right now; try again shortly.";
    throw new AppError("storage_unavailable", { message, headers: { "retry-after": "1" } }, silent);
  }

  /** Tells the node that forwarded a request that the connection of its answer was closed here. */
  tellDropped(nodeId: string, requestId: string): void {
    const { roster, talk } = this.#parts;
    const node = roster.find(nodeId);
    // If that fails, the node has lost its connections to this one, or is about to.
    if (node) void talk.dropped(node, requestId).catch(() => {});
  }

  /** Looks the app's row up until `ask` gives an answer; null if there is no such app. */
  async #look(
    app: AppKey,
    ask: (place: AppPlace) => Promise<AppLocation | null>,
  ): Promise<AppLocation | null> {
    const { clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < until) {
      const place = await this.#place(app);
      if (!place) return null;
      const found = await ask(place);
      if (found?.kind === "there") {
        if (this.#known.size >= MAX_KNOWN) this.#known.clear();
        this.#known.set(textOf(app), found.peer.id);
      }
      if (found) return found;
      await pause(clock, LOOK_AGAIN_MS);
    }
    throw new AppError("app_not_ready", { headers: { "retry-after": "1" } });
  }
}

function textOf({ projectId, appName }: AppKey): string {
  return `${projectId}/${appName}`;
}

/** Looks apps up, one statement at a time: callers have not shown a token yet and may invent names. */
export function placeFinder(store: Pick<Store, "appOwners">): (app: AppKey) => Promise<AppPlace | null> {
  const lookUp = async (apps: readonly AppKey[]): Promise<ReadonlyMap<string, AppPlace>> => {
    const wanted = new Map(apps.map((app) => [textOf(app), app]));
    const names = Array.from(wanted.values(), ({ projectId, appName: name }) => ({ projectId, name }));
    const places = await store.appOwners.find(names);
    return new Map(places.map((place) => [textOf({ ...place, appName: place.name }), place]));
  };
  const batches = new Batcher(lookUp, { maxItems: NAMES_AT_ONCE });
  return async (app) => (await batches.add(app)).get(textOf(app)) ?? null;
}
