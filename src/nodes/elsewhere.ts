import type { RunKey } from "../model/run.ts";
import type { Passed } from "./passage.ts";
import type { Peer } from "./peer.ts";
import type { Peers } from "./peers.ts";

/** Which app a request is about. */
export type AppKey = { readonly projectId: string; readonly appName: string };

/** Who asks where an app is: a caller, or a node that has passed a request on to this one, which takes what nobody has. */
export type Asker = "caller" | "node";

/** Who answers for an app: this node, or another. */
export type Whereabouts = { readonly kind: "here" } | { readonly kind: "there"; readonly peer: Peer };

/** All that it takes to pass a request on. */
export type Others = { readonly elsewhere: Elsewhere; readonly peers: Peers };

/** Knows where apps are that this node may not have. */
export type Elsewhere = {
  /** How this node reaches itself: for a request whose body is read when its app turns out to be here. */
  readonly self: Peer;
  /** Who answers for the app, after this node has taken it if it is to have it; null if there is no such app. */
  find(app: AppKey, asker: Asker): Promise<Whereabouts | null>;
  /** The same after that peer did not have the app, or was not reached: waits for news; null if none came in time. */
  retry(app: AppKey, peer: Peer, why: Passed, signal: AbortSignal): Promise<Whereabouts | null>;
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
