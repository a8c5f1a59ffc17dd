import { Batcher } from "../../kit/batcher.ts";
import type { Clock } from "../../kit/clock.ts";
import { pause } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import type { AppPlace } from "../../model/node.ts";
import type { RunKey } from "../../model/run.ts";
import type { Store } from "../../store/store.ts";
import type { Owners } from "../owners.ts";
import type { Peer, Peers } from "../peers.ts";
import type { Roster } from "../roster.ts";
import type { NodeTalk } from "../talk.ts";

/** Which app a request is about. */
export type AppKey = { readonly projectId: string; readonly appName: string };

/** Who asks where an app is: a caller, or a node that has passed a request on to this one, which takes what nobody has. */
export type Asker = "caller" | "node";

/** Who answers for an app: this node, or another. */
export type Whereabouts = { readonly kind: "here" } | { readonly kind: "there"; readonly peer: Peer };

/** All that it takes to pass a request on. */
export type Others = { readonly elsewhere: Elsewhere; readonly peers: Peers };

/** Why a node has begun nothing of a request: it does not have the app, or was not reached. */
export type Unsent = "moved" | "unreached";

/** Knows where apps are that this node may not have. */
export type Elsewhere = {
  /** Who answers for the app, after this node has taken it if it is to have it; null if there is no such app. */
  settle(app: AppKey, asker: Asker): Promise<Whereabouts | null>;
  /** The same after that peer did not have the app, or was not reached: waits for news; null if none came in time. */
  retry(app: AppKey, peer: Peer, why: Unsent, signal: AbortSignal): Promise<Whereabouts | null>;
  /** Which other living node a run is under way on; null if none. Asked for runs that are not under way here. */
  ofRun(run: RunKey): Promise<Peer | null>;
  /**
   * Which other living node has a run of which nothing is stored: calls and streams in progress are known only to the
   * node that executes them, which may have given their app away meanwhile. Throws if one of them does not answer.
   */
  holderOf(run: RunKey): Promise<Peer | null>;
  /** Tells the node that passed a request on that the connection of its answer was closed here. */
  tellDropped(nodeId: string, requestId: string): void;
};

type WhereaboutsParts = {
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
const NAMES_AT_ONCE = 100;

/** Where apps and runs are, by what the database and the other nodes say. */
export class NodeWhereabouts implements Elsewhere {
  readonly #parts: WhereaboutsParts;
  readonly #places: Places;
  /** The nodes of other nodes' apps, by project and name. A caller who is told that one moved has it looked up again. */
  readonly #known = new Map<string, string>();

  constructor(parts: WhereaboutsParts) {
    this.#parts = parts;
    this.#places = new Places(parts.store);
  }

  /** Which node has the app, or is to take it; null if there is no such app. Takes nothing. */
  async find(app: AppKey): Promise<Whereabouts | null> {
    return await this.#look(app, (place) => this.#parts.owners.locate(place, false));
  }

  async settle(app: AppKey, asker: Asker): Promise<Whereabouts | null> {
    const { roster, owners } = this.#parts;
    const known = roster.find(this.#known.get(textOf(app)) ?? "");
    if (known && !known.isLeaving && asker !== "node") return { kind: "there", peer: known };
    return await this.#look(app, (place) => owners.settle(place, asker === "node"));
  }

  /** A node that was not reached may be dead: its apps have another owner once its lease has passed. */
  async retry(app: AppKey, peer: Peer, why: Unsent, signal: AbortSignal): Promise<Whereabouts | null> {
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

  async ofRun(run: RunKey): Promise<Peer | null> {
    const { store, roster } = this.#parts;
    const owner = await store.runs.owner(run);
    if (owner === null || owner === this.#parts.self.id) return null;
    return roster.find(owner) ?? null;
  }

  async holderOf(run: RunKey): Promise<Peer | null> {
    const { roster, talk } = this.#parts;
    const others = roster.all.filter(({ id }) => id !== this.#parts.self.id);
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

  /** Asks about the app's place until an answer holds; null if there is no such app. */
  async #look(
    app: AppKey,
    ask: (place: AppPlace) => Promise<Whereabouts | null>,
  ): Promise<Whereabouts | null> {
    const { clock } = this.#parts;
    const until = clock.monotonic() + PATIENCE_MS;
    while (clock.monotonic() < until) {
      const place = await this.#places.find(app);
      if (!place) return null;
      const found = await ask(place);
      if (found?.kind === "there") this.#know(textOf(app), found.peer.id);
      if (found) return found;
      await pause(clock, LOOK_AGAIN_MS);
    }
    throw new AppError("app_not_ready", { headers: { "retry-after": "1" } });
  }

  #know(text: string, nodeId: string): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(text, nodeId);
  }
}

/** The name of an app, and its project's, as one text. */
function textOf({ projectId, appName }: AppKey): string {
  return `${projectId}/${appName}`;
}

/**
 * Where apps are, by what the database says. Whoever asks has not shown a token yet, and may make names up: however many
 * ask, it is one statement at a time.
 */
export class Places {
  readonly #batches: Batcher<AppKey, ReadonlyMap<string, AppPlace>>;

  constructor(store: Pick<Store, "appOwners">) {
    this.#batches = new Batcher(
      async (apps): Promise<ReadonlyMap<string, AppPlace>> => {
        const wanted = new Map(apps.map((app) => [textOf(app), app]));
        const names = Array.from(wanted.values(), ({ projectId, appName: name }) => ({ projectId, name }));
        const places = await store.appOwners.find(names);
        return new Map(places.map((place) => [textOf({ ...place, appName: place.name }), place]));
      },
      { maxItems: NAMES_AT_ONCE },
    );
  }

  /** Null when there is no such app. */
  async find(app: AppKey): Promise<AppPlace | null> {
    return (await this.#batches.add(app)).get(textOf(app)) ?? null;
  }
}
