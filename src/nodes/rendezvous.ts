import { createHash } from "node:crypto";
import type { ServiceNode } from "../model/node.ts";

/** What of a node decides which apps are its own. */
export type Candidate = Pick<ServiceNode, "id"> & {
  readonly details: Pick<ServiceNode["details"], "home" | "capacity">;
};

/**
 * Which node an app belongs to, by weighted rendezvous hashing: every node that knows the same others comes to the same
 * answer, each gets apps by its capacity, and of a node that comes or goes only its own share moves. A node that
 * restarts on its data directory gets back what it had.
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

/** Above 0; the higher its capacity, the likelier is a high one. */
function scoreOf(appNumber: number, { details: { home, capacity } }: Candidate): number {
  const digest = createHash("sha256").update(`${appNumber}/${home}`).digest();
  // 48 bits, never 0 and never 1.
  const share = (digest.readUIntBE(0, 6) + 0.5) / 2 ** 48;
  return capacity.cpus / -Math.log(share);
}
