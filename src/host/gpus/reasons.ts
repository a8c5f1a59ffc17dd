import type { GpuKind, GpuWish, MachineGpus } from "../../model/gpu.ts";
import { describeGpus, matches } from "./source.ts";
import { type BrokerView, type Held, type Matches, poolsFor, Room, type Waiting } from "./room.ts";

/** Why no GPU of the machine will ever serve a wish, for people; null if one may. GPUs out of service may come back. */
export function whyNever(
  wish: GpuWish,
  machine: Pick<MachineGpus, "trouble"> & { readonly gpus: readonly GpuKind[] },
  matches: Matches,
): string | null {
  const { gpus, trouble } = machine;
  if (gpus.length === 0) return trouble ?? "this machine has no GPU";
  const places = gpus.map((gpu) => ({ gpu }));
  const pools = poolsFor(wish, places, matches);
  const models = namesOf(wish);
  if (pools.length === 0) {
    const there = [...new Set(gpus.map(({ model }) => model))].join(", ");
    return `this machine has no GPU of ${models}, only ${there}`;
  }
  const { memoryBytes, count } = wish;
  const largest = Math.max(...pools.flat().map(({ gpu }) => gpu.memoryBytes));
  if (memoryBytes !== null && memoryBytes > largest)
    return `${gb(memoryBytes)} of one GPU are wanted, the largest of ${models} here has ${gb(largest)}`;
  const enough = pools.map((pool) => pool.filter(({ gpu }) => (memoryBytes ?? 0) <= gpu.memoryBytes).length);
  const most = Math.max(...enough);
  if (most >= count) return null;
  return `${count} GPUs of one model are wanted, this machine has ${most} of ${models}`;
}

/** Whether a machine with those GPUs may ever serve a wish. */
export function canServe(wish: GpuWish, gpus: readonly GpuKind[]): boolean {
  return whyNever(wish, { gpus, trouble: null }, matches) === null;
}

/** Adds to a reason of this machine what the other nodes have, none of which can serve the wish either. */
export function onNoNode(why: string, others: readonly (readonly GpuKind[])[]): string {
  if (others.length === 0) return why;
  return `${why}; no other node can serve it either: they have ${describeGpus(others.flat()) || "no GPU"}`;
}

/** What a wish waits for, for people. Apps of other projects are not named. */
export function whatItAwaits(view: BrokerView, waiting: Waiting): string {
  const { wish, projectId } = waiting;
  const share = { projectId, memoryBytes: wish.memoryBytes };
  const places = view.gpus.map((gpu) => ({ gpu, room: new Room(gpu, view) }));
  const pools = poolsFor(wish, places, view.matches);
  const matching = [...new Set(pools.flat())];
  const working = matching.filter(({ gpu }) => gpu.fault === null).map(({ room }) => room);
  const free = working.filter((room) => room.admits(share, room.held));
  const taken = working.filter((room) => !free.includes(room));
  const available = taken
    .filter((room) => room.held.every((held) => room.mayMeet(share, held)))
    .map((room) => room.availableBytes(room.held));

  const reasons: string[] = [];
  const held = new Set(taken.flatMap((room) => [...room.held]));
  const running = Map.groupBy(
    view.held.filter(({ isEnding }) => !isEnding),
    ({ tenant }) => tenant,
  );
  const states = Map.groupBy(held, (one) => stateOf(one, running.get(one.tenant) ?? [], view));
  for (const [state, those] of states) reasons.push(`${appsOf(those, waiting, "is", "are")} ${state}`);
  const outside = Math.max(0, ...taken.map(({ outsideBytes }) => outsideBytes));
  if (outside >= 1e9) reasons.push(`${gb(outside)} are used outside Millrace`);
  const faulty = matching.filter(({ gpu }) => gpu.fault !== null);
  // MIG instances have the number of their GPU.
  for (const index of new Set(faulty.map(({ gpu }) => gpu.index)))
    reasons.push(`GPU ${index} is out of service`);
  const earlier = view.waiting.slice(0, Math.max(0, view.waiting.indexOf(waiting)));
  // One for each app: thousands of its replicas may wait.
  const before = [...new Map(earlier.map((other) => [other.tenant, other])).values()].filter(
    ({ wish: theirs }) => poolsFor(theirs, working, view.matches).length > 0,
  );
  if (before.length > 0) reasons.push(`${appsOf(before, waiting, "waits", "wait")} before it`);

  const head = wanted(wish, free.length, Math.max(0, ...available));
  return [head, ...(reasons.length > 0 ? [reasons.join(", ")] : [])].join("; ");
}

function wanted(wish: GpuWish, free: number, availableBytes: number): string {
  const { memoryBytes, count } = wish;
  const models = namesOf(wish);
  const many = `${free === 0 ? "none" : free} ${free > 1 ? "are" : "is"} free`;
  if (memoryBytes === null)
    return `GPUs: ${count} of ${models} ${count === 1 ? "is" : "are"} wanted, ${many}`;
  if (count > 1)
    return `GPU memory: ${gb(memoryBytes)} on each of ${count} GPUs of ${models} are wanted, ${free === 0 ? "none has" : `${free} ${free > 1 ? "have" : "has"}`} that much free`;
  const left = free > 0 ? "that much is" : `${gb(availableBytes)} are`;
  return `GPU memory: ${gb(memoryBytes)} of ${models} are wanted, ${left} free`;
}

/** Why it is not evicted. */
function stateOf(held: Held, siblings: readonly Held[], view: BrokerView): string {
  if (held.isEnding) return "being stopped";
  if (held.idleSinceMs === null) return "in use";
  if (siblings.length <= (view.minimums.get(held.tenant) ?? 0)) return "kept by min_replicas";
  const lastMs = Math.max(...siblings.map(({ grantedMs }) => grantedMs));
  return lastMs + view.holdMs > view.nowMs ? "just started" : "idle";
}

/** The apps, and the verb in singular or plural. */
function appsOf(
  owners: readonly { readonly app: string; readonly projectId: string }[],
  { projectId }: Waiting,
  one: string,
  several: string,
): string {
  const own = new Set(owners.filter((owner) => owner.projectId === projectId).map(({ app }) => app));
  const others = new Set(
    owners.filter((owner) => owner.projectId !== projectId).map((owner) => `${owner.projectId} ${owner.app}`),
  );
  const names = own.size > 0 ? [`app${own.size > 1 ? "s" : ""} ${[...own].join(", ")}`] : [];
  if (others.size > 0) names.push(others.size > 1 ? "apps of other projects" : "an app of another project");
  return `${names.join(" and ")} ${own.size + others.size === 1 ? one : several}`;
}

function namesOf({ models }: GpuWish): string {
  return models.some((model) => model.toUpperCase() === "ANY") ? "any model" : models.join(" or ");
}

function gb(bytes: number): string {
  return `${Math.round(bytes / 1e8) / 10} GB`;
}

type Named = { readonly app: string; readonly projectId: string };

/** An app as people of another one may know of it: those of other projects have no names. */
export function asSeenBy(one: Named, other: Named): string {
  return one.projectId === other.projectId ? `app ${other.app}` : "an app of another project";
}
