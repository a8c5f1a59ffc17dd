import { type Event, ownersDuring } from "../support/cluster/history-rules.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import type { Failure } from "./load.ts";

/** Something that was done to a node, from its beginning until nothing of it was left; `id` is the node's of then. */
export type Blow = {
  readonly node: ClusterNode;
  readonly id: string;
  readonly from: number;
  readonly to: number;
};

/** So long others may believe that a node has an app which it has lost (docs/cluster.md). */
const BELIEVED_MS = 1_000;

/**
 * Whether a call failed because a node died that held it: it had taken the connection, or it had the app, as far as was
 * known, and the call was passed on to it.
 */
function isExplained(failure: Failure, blow: Blow, owners: ReadonlySet<string>): boolean {
  if (failure.from > blow.to || failure.to < blow.from) return false;
  return failure.entry === blow.node || owners.has(blow.id);
}

/** The failures that none of the blows explains, one line each. */
export function unexplained(
  failures: readonly Failure[],
  blows: readonly Blow[],
  events: readonly Event[],
  apps: ReadonlyMap<string, number>,
): string[] {
  return failures
    .filter((failure) => {
      const owners = ownersDuring(events, apps.get(failure.app) ?? 0, failure.from - BELIEVED_MS, failure.to);
      return !blows.some((blow) => isExplained(failure, blow, owners));
    })
    .map(
      ({ kind, app, entry, from, to, what }) =>
        `${new Date(from).toISOString()} ${to - from} ms, ${kind} of ${app} at ${entry?.name}: ${what}`,
    );
}
