import { createHash } from "node:crypto";
import { canServe } from "../host/gpus/reasons.ts";
import type { GpuWish } from "../model/gpu.ts";
import type { ServiceNode } from "../model/node.ts";

/** The part of a node that decides which apps belong to it. */
export type Candidate = Pick<ServiceNode, "id"> & {
  readonly details: Pick<ServiceNode["details"], "home" | "capacity" | "gpus">;
};

/** The nodes that may own an app: those that can ever serve its GPU wish; all of them if none can, or without a wish. */
export function eligible<Node extends Candidate>(
  wish: GpuWish | null,
  nodes: readonly Node[],
): readonly Node[] {
  if (!wish) return nodes;
  const able = nodes.filter(({ details }) => canServe(wish, details.gpus ?? []));
  return able.length > 0 ? able : nodes;
}

/**
 * The node that an app belongs to, by weighted rendezvous hashing: nodes that know the same others agree, each gets apps
 * by its capacity, and only the share of a node that comes or goes moves. A node that restarts on its data directory
 * gets its apps back.
 */
export function winnerOf<Node extends Candidate>(appNumber: number, nodes: readonly Node[]): Node | null {
  let winner: Node | null = null;
  let highest = 0;
  for (const node of nodes) {
    const score = scoreOf(appNumber, node);
    if (winner && (score < highest || (score === highest && node.id > winner.id))) continue;
    winner = node;
    highest = score;
  }
  return winner;
}

/** Nodes for an app, the one that should have it first. */
export function ranked<Node extends Candidate>(appNumber: number, nodes: readonly Node[]): Node[] {
  return nodes.toSorted((a, b) => scoreOf(appNumber, b) - scoreOf(appNumber, a) || (a.id < b.id ? -1 : 1));
}

/** Above 0; a higher capacity makes a high score likelier. */
function scoreOf(appNumber: number, { details: { home, capacity } }: Candidate): number {
  const [low, high] = seedOf(home);
  // Of 64 bits, never 0 and never 1.
  const share = (mix(appNumber ^ high) + (mix(appNumber ^ low) + 0.5) / 2 ** 32) / 2 ** 32;
  return capacity.cpus / -Math.log(share);
}

type Seed = readonly [low: number, high: number];

/** Hashing a name takes a hundred times as long as all the rest, and there are few nodes. */
const seeds = new Map<string, Seed>();
const MAX_SEEDS = 10_000;

function seedOf(home: string): Seed {
  let seed = seeds.get(home);
  if (!seed) {
    const digest = createHash("sha256").update(home).digest();
    seed = [digest.readUInt32BE(0), digest.readUInt32BE(4)];
    if (seeds.size >= MAX_SEEDS) seeds.clear();
    seeds.set(home, seed);
  }
  return seed;
}

/** The bits of a number well mixed, from 0 up to 2^32: the last step of MurmurHash3. */
function mix(number: number): number {
  let mixed = number ^ (number >>> 16);
  mixed = Math.imul(mixed, 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Up to `limit` of a node's apps that belong to another node, with that node. */
export function toMove<Node extends Candidate>(
  owned: readonly number[],
  self: string,
  nodesFor: (appNumber: number) => readonly Node[],
  limit: number,
) {
  const moves: { readonly appNumber: number; readonly to: Node }[] = [];
  for (const appNumber of owned) {
    if (moves.length === limit) break;
    const to = winnerOf(appNumber, nodesFor(appNumber));
    if (to && to.id !== self) moves.push({ appNumber, to });
  }
  return moves;
}
