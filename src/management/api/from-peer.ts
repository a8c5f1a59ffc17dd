import type { IncomingMessage } from "node:http";
import type { FromPeer } from "../../nodes/peer-listener.ts";

const passedOn = new WeakMap<IncomingMessage, FromPeer>();

/** Remembers that another node has passed a request on. */
export function noteFromPeer(request: IncomingMessage, from: FromPeer): void {
  passedOn.set(request, from);
}

/** What the node says that has passed a request on; null for one that came here first. */
export function fromPeer(request: IncomingMessage): FromPeer | null {
  return passedOn.get(request) ?? null;
}
