import { rmSync } from "node:fs";
import { copyFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import type { Authority } from "../../../src/nodes/authority.ts";
import type { Locator } from "../../../src/nodes/forward/app-locator.ts";
import type { AppLocation } from "../../../src/nodes/owners.ts";
import type { ForwardResult } from "../../../src/nodes/forward/forwarded-request.ts";
import type { Peer } from "../../../src/nodes/peers.ts";
import { testAuthority, type TestNode, testNode } from "./hop.ts";
import { type TestApp, type TestService, type TestServiceOptions, testService } from "../service.ts";

/** What a service of a test believes about where apps are; the test says so. */
class Beliefs implements Locator {
  find: Locator["find"] = async () => null;
  settle: Locator["settle"] = async () => null;
  ofRun: Locator["ofRun"] = async () => null;
  holderOf: Locator["holderOf"] = async () => null;
  tellDropped: Locator["tellDropped"] = () => {};
  /** What is to be found out after a node did not have the app; null for nothing. */
  later: () => Promise<AppLocation | null> = async () => null;
  readonly retries: ForwardResult[] = [];

  async retry(_: unknown, __: Peer, why: ForwardResult): Promise<AppLocation | null> {
    this.retries.push(why);
    return await this.later();
  }
}

/** A service that has other nodes beside it. */
type NodeService = { readonly on: TestService; readonly node: TestNode; readonly beliefs: Beliefs };

export type TwoServices = { readonly front: NodeService; readonly owner: NodeService };

/** Two services that reach each other: all apps are the second's, and the first knows it. */
export async function twoServices(
  apps: Record<string, TestApp>,
  flags: Record<string, unknown> = {},
  ownersFlags = flags,
): Promise<TwoServices> {
  const authority = await testAuthority();
  const owner = await nodeService(authority, ownersFlags);
  const front = await nodeService(authority, flags);
  return await divide(front, owner, apps);
}

/** Two nodes of one installation, as they are; what is deployed by the second is its own at first. */
export async function twoOfOne(
  databaseUrl: string,
  options: { readonly front?: TestServiceOptions; readonly owner?: TestServiceOptions } = {},
): Promise<{ readonly front: TestService; readonly owner: TestService }> {
  const shared = await mkdtemp(path.join(tmpdir(), "millrace-shared-"));
  const dataDir = await mkdtemp(path.join(tmpdir(), "millrace-data-"));
  onTestFinished(async () => {
    for (const folder of [shared, dataDir]) rmSync(folder, { recursive: true, force: true });
  });
  const flags = { databaseUrl, blobs: shared };
  const owner = await testService({}, flags, options.owner);
  const keyFile = "master.key";
  await copyFile(path.join(owner.settings.dataDir, keyFile), path.join(dataDir, keyFile));
  return { front: await testService({}, { ...flags, dataDir }, options.front), owner };
}

async function nodeService(authority: Authority, flags: Record<string, unknown>): Promise<NodeService> {
  const node = await testNode(authority);
  const beliefs = new Beliefs();
  const on = await testService({}, flags, { others: { locator: beliefs, peers: node.peers } });
  node.listener.route({ ...on.service.peerRoutes, own: async () => null });
  return { on, node, beliefs };
}

async function divide(
  front: NodeService,
  owner: NodeService,
  apps: Record<string, TestApp>,
): Promise<TwoServices> {
  for (const [name, app] of Object.entries(apps)) await owner.on.deploy(name, app);
  front.beliefs.settle = async () => ({ kind: "there", peer: owner.node.peer });
  return { front, owner };
}

/** The address of an app of the owner's through the first service. */
export function through({ front, owner }: TwoServices, app: string, target: string): string {
  return owner.on.url(app, target).replace(owner.on.service.apiUrl, front.on.service.apiUrl);
}
