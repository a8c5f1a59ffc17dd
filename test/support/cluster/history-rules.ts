import { RUN_STATES, isFinal } from "../../../src/model/run.ts";

/** One line of the history of a cluster. Events stand in the order in which they became true. */
export type Event = {
  readonly number: number;
  /** Who wrote it: each node has a role of its own. */
  readonly role: string;
  /** A node that joined, an app that changed hands, a version that was switched to, a run that changed its state. */
  readonly kind: "node" | "owner" | "switch" | "run";
  readonly app: number | null;
  /** Of an app, who has it; of a run, who executes it, or did before. */
  readonly owner: string | null;
  readonly fence: number | null;
  readonly run: string | null;
  readonly state: number | null;
  readonly before: number | null;
  readonly version: string | null;
  readonly committedAt: number;
};

/** Where the history shows that two nodes wrote about one app, or that a run ended twice; one line each. */
export function breaches(events: readonly Event[]): string[] {
  const roles = new Map<string, string>();
  const apps = new Map<number, { owner: string | null; fence: number; had: Set<string> }>();
  const ended = new Set<string>();
  const found: string[] = [];
  for (const event of events) {
    const { kind, role, owner, fence, app } = event;
    const say = (what: string): void => void found.push(`${what}: ${JSON.stringify(event)}`);
    const isOther = owner !== null && roles.get(owner) !== role;
    const has = apps.get(app ?? 0);
    if (kind === "node") roles.set(owner ?? "", role);
    if (kind === "owner") {
      if (has && (fence ?? 0) <= has.fence) say("a fence did not grow");
      apps.set(app ?? 0, { owner, fence: fence ?? 0, had: (has?.had ?? new Set()).add(owner ?? "") });
    }
    if (kind === "switch" && (owner === null || isOther))
      say("a version was switched by a node without the app");
    if (kind === "run") for (const what of runFaults(event, { has, isOther, ended })) say(what);
  }
  return found;
}

type Known = {
  readonly has: { readonly owner: string | null; readonly had: ReadonlySet<string> } | undefined;
  readonly isOther: boolean;
  readonly ended: Set<string>;
};

function runFaults({ app, run, owner, state, before }: Event, { has, isOther, ended }: Known): string[] {
  const to = RUN_STATES[state ?? 0]!;
  const from = before === null ? null : RUN_STATES[before]!;
  const key = `${app} ${run}`;
  const faults: string[] = [];
  // What was under way at a node when the app left it is accepted there, and ends there or goes back into the queue.
  const isTheirs = from === null ? has?.had.has(owner ?? "") : has?.owner === owner;
  if (to === "running" && !isTheirs) faults.push("a run was claimed by a node without the app");
  if (to === "running" && isOther) faults.push("a run was claimed in the name of another node");
  if (isFinal(to) && from === "running" && isOther) faults.push("a run of another node was ended");
  if (from !== null && isFinal(from)) faults.push("a run went on after its end");
  if (isFinal(to) && ended.has(key)) faults.push("a run ended twice");
  if (isFinal(to)) ended.add(key);
  return faults;
}

/** Which nodes had an app at some time between two moments. */
export function ownersDuring(
  events: readonly Event[],
  app: number,
  from: number,
  to: number,
): ReadonlySet<string> {
  const owners = new Set<string>();
  let last: string | null = null;
  for (const event of events) {
    if (event.kind !== "owner" || event.app !== app || event.committedAt > to) continue;
    if (event.committedAt >= from && last !== null) owners.add(last);
    last = event.owner;
    if (event.committedAt >= from && last !== null) owners.add(last);
  }
  if (last !== null) owners.add(last);
  return owners;
}
