import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Peer } from "../../src/nodes/peers.ts";
import { type Child, startChild, withOpenFiles } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";
import type { Running } from "../subject.ts";
import { newSecret } from "./bench-node.ts";

/** What stands in front of the service that has the app: the same without and with TLS, and another node. */
export const FRONTS = ["floor", "passthrough", "millrace"] as const;
export type Front = (typeof FRONTS)[number];

export const FRONT_NAMES: Readonly<Record<Front, string>> = {
  floor: "bare, without TLS",
  passthrough: "bare pass-through",
  millrace: "another node",
};

/** A service that has one of the bench's apps. */
export type Owner = {
  readonly secret: string;
  readonly url: string;
  readonly token: string;
  readonly peer: Peer;
};

const APPS = join(import.meta.dirname, "../apps");

/** Has an app served while it is measured; every front leads to the same owner, so that only the fronts differ. */
export async function withOwner<T>(app: string, measure: (owner: Owner) => Promise<T>): Promise<T> {
  const secret = await newSecret(randomBytes(32));
  const child = startScript("owner-child.ts", secret, makeScratchDir(), join(APPS, app));
  try {
    return await measure({ secret, ...(JSON.parse(await child.nextLine()) as Omit<Owner, "secret">) });
  } finally {
    await child.stop();
  }
}

/** Starts one of the fronts. */
export async function startFront(front: Front, { secret, url, token, peer }: Owner): Promise<Running> {
  const child = {
    floor: () => startScript("bare-child.ts", url),
    passthrough: () => startScript("bare-child.ts", secret, JSON.stringify(peer)),
    millrace: () => startScript("front-child.ts", secret, makeScratchDir(), JSON.stringify(peer)),
  }[front]();
  const { url: base } = JSON.parse(await child.nextLine()) as { url: string };
  return {
    url: `${base}${new URL(url).pathname}`,
    headers: { Authorization: `Bearer ${token}` },
    pid: child.pid,
    stop: child.stop,
  };
}

function startScript(name: string, ...args: readonly string[]): Child {
  return startChild(...withOpenFiles(process.execPath, [join(import.meta.dirname, name), ...args]));
}
