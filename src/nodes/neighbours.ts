import { isIP } from "node:net";
import type { Clock, Timer } from "../kit/clock.ts";
import { rename, writeFile } from "../kit/files.ts";
import type { Log } from "../kit/log.ts";
import type { ServiceNode } from "../model/node.ts";

export type NeighboursParts = {
  /** Where the walls of this node's apps look. */
  readonly file: string;
  readonly nodes: () => readonly ServiceNode[];
  readonly ownId: string;
  /** Of this node's management API: a node that does not say has the same. */
  readonly managementPort: () => number;
  readonly clock: Clock;
  readonly log: Log;
};

const LOOK_MS = 1_000;
/** Each connection of an app reads them all when they have changed. */
const MAX_ADDRESSES = 5_000;
const ADDRESS = /^(?:[\d.]+|\[[\da-f:.]+\]):\d{1,5}$/i;

/**
 * Keeps a file with the addresses of the other nodes' management APIs, one in each line: the agents of apps read it when
 * it has changed, and refuse connections to them. A known address stays: a node that is cut off from the database counts
 * as dead, but still listens.
 */
export class Neighbours {
  readonly #parts: NeighboursParts;
  readonly #known = new Set<string>();
  #timer: Timer | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: NeighboursParts) {
    this.#parts = parts;
  }

  /** Writes the file; apps can start then. */
  async start(): Promise<void> {
    this.#learn();
    await this.#write();
    const { clock, log } = this.#parts;
    this.#timer = clock.every(LOOK_MS, () => {
      if (!this.#learn()) return;
      this.#writing = this.#writing
        .then(() => this.#write())
        .catch((error: unknown) => log.error({ err: error }, "could not tell apps' walls of another node"));
    });
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    await this.#writing;
  }

  /** Whether addresses were new. */
  #learn(): boolean {
    const { nodes, ownId, managementPort } = this.#parts;
    const before = this.#known.size;
    for (const node of nodes()) {
      if (node.id === ownId) continue;
      for (const address of addressesOf(node, managementPort()))
        if (this.#known.size < MAX_ADDRESSES) this.#known.add(address);
    }
    return this.#known.size > before;
  }

  async #write(): Promise<void> {
    const { file } = this.#parts;
    const text = [...this.#known].map((address) => `${address}\n`).join("");
    await writeFile(`${file}.new`, text, { mode: 0o600 });
    await rename(`${file}.new`, file);
  }
}

/** As the node says, and where the other nodes reach it. */
function addressesOf({ url, details }: ServiceNode, ownPort: number): string[] {
  const told = details.managementAddresses.filter((address) => ADDRESS.test(address));
  const port = told[0]?.slice(told[0].lastIndexOf(":") + 1) ?? String(ownPort);
  const host = new URL(url).hostname;
  return isIP(host.replace(/^\[|\]$/g, "")) === 0 ? told : [...told, `${host}:${port}`];
}
