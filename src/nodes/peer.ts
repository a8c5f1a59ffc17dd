import type { ServiceNode } from "../model/node.ts";

/** Another node, as far as one has to know it to reach it. */
export type Peer = Pick<ServiceNode, "id" | "url">;
