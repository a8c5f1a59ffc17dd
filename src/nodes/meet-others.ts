import type { Clock } from "../kit/clock.ts";
import { pause } from "../kit/pause.ts";
import { LEASE_MS } from "./lease.ts";
import type { Peer } from "./peers.ts";
import type { Roster } from "./roster.ts";
import type { NodeTalk } from "./talk.ts";

export type MeetingParts = {
  readonly roster: Roster;
  readonly talk: Pick<NodeTalk, "hello">;
  readonly clock: Clock;
  readonly self: Peer;
};

/** One that has died counts as alive until its lease has passed. */
const PATIENCE_MS = 2 * LEASE_MS;
const LOOK_AGAIN_MS = 500;

/** Another node lives, and cannot be reached from here, or this one from there. */
class UnreachableNodeError extends Error {
  constructor(other: Peer, self: Peer, cause: unknown) {
    super(
      `this service, at ${self.url}, and another of this installation, at ${other.url}, cannot reach each other: ` +
        "set MILLRACE_NODE_URL of each to an address that the others reach",
      { cause },
    );
    this.name = "UnreachableNodeError";
  }
}

/** Another node lives whose data directory has the same name: which apps are whose goes by that name. */
class CopiedDirectoryError extends Error {
  constructor(other: Peer) {
    super(
      `the data directory of this service is a copy of that of the service at ${other.url}: ` +
        "remove the file directory-id from the copy and start again",
    );
    this.name = "CopiedDirectoryError";
  }
}

/**
 * Resolves when every other node that lives was reached, and has reached this one; throws if one is not, or if one has a
 * copy of this node's data directory.
 */
export async function meetOthers({ roster, talk, clock, self }: MeetingParts): Promise<void> {
  const met = new Set([self.id]);
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const others = roster.all.filter(({ id }) => !met.has(id));
    let failure: { readonly other: Peer; readonly cause: unknown } | null = null;
    for (const other of others) {
      try {
        await talk.hello(other, self);
        met.add(other.id);
      } catch (error) {
        failure = { other, cause: error };
      }
    }
    if (!failure) return requireOwnHome(roster, self);
    if (clock.monotonic() > until) throw new UnreachableNodeError(failure.other, self, failure.cause);
    await pause(clock, LOOK_AGAIN_MS);
    await roster.look();
  }
}

function requireOwnHome(roster: Roster, self: Peer): void {
  const home = roster.find(self.id)?.details.home;
  const twin = roster.all.find(({ id, details }) => id !== self.id && details.home === home);
  if (twin) throw new CopiedDirectoryError(twin);
}
