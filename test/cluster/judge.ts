import type { Event } from "../support/cluster/history-rules.ts";
import { ownersDuring } from "../support/cluster/history-rules.ts";
import type { ClusterNode } from "../support/cluster/node.ts";
import type { Failure } from "./load.ts";

/** Something that was done to a node, from its beginning until nothing of it was left; `id` is the node's of then. */
export type Blow = {
  readonly node: ClusterNode;
  readonly id: string;
  readonly from: number;
  readonly to: number;
};

/** Until a node has learned that an app has another owner, it passes calls on to the one before. */
const TOLD_MS = 1_000;

/**
 * Whether a call failed because a node died that held it: it had taken the connection, or it had the app, and the call
 * was passed on to it.
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
      const app = apps.get(failure.app) ?? 0;
      const owners = ownersDuring(events, app, failure.from - TOLD_MS, failure.to);
      return !blows.some((blow) => isExplained(failure, blow, owners));
    })
    .map(
      ({ kind, app, entry, from, to, what }) =>
        `${new Date(from).toISOString()} ${to - from} ms, ${kind} of ${app} at ${entry?.name}: ${what}`,
    );
}
