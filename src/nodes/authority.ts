import { type Certified, makeAuthority, makeLeaf, NO_END } from "../kit/x509.ts";
import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import type { PeerCertificate } from "node:tls";

/** How a node identifies itself: its certificate and key, and the authority that both sides trust. */
export type Identity = Certified & { readonly nodeId: string; readonly authority: string };

/** The name that every service shows to the agents of remote seats, whatever its address; no node has it. */
const SEATS_HOST = "home.seats.millrace.internal";

/** The row of `meta` with the key. */
const KEY = "authority";
const CONTEXT = "meta/authority";
const NAME = "Millrace installation";
/** Ten years; no node runs for longer without a restart. */
const LEAF_MS = 3652 * 24 * 60 * 60 * 1000;
/** Long ago, because clocks differ. */
const FROM = new Date("2020-01-01T00:00:00Z");

type AuthorityParts = {
  readonly store: { readonly meta: Pick<Store["meta"], "get" | "setIfAbsent"> };
  readonly seal: Seal;
  readonly clock: Pick<Clock, "now">;
};

/** The installation's own authority; a client with one of its certificates is one of its nodes. */
export type Authority = Awaited<ReturnType<typeof openAuthority>>;

/** The authority in the database, made by the first node that starts. Its key is sealed with the master key. */
export async function openAuthority({ store, seal, clock }: AuthorityParts) {
  const make = (): string => {
    const made = makeAuthority({ name: NAME, from: FROM, until: NO_END });
    return seal.close(Buffer.from(JSON.stringify(made)), CONTEXT).toString("base64");
  };
  // If several nodes make one at once, all take the one that was stored first.
  const stored = (await store.meta.get(KEY)) ?? (await store.meta.setIfAbsent({ key: KEY, value: make() }));
  const opened = seal.open(Buffer.from(stored, "base64"), CONTEXT).toString();
  const { certificate, key } = JSON.parse(opened) as Certified;
  const certify = (name: string): Omit<Identity, "nodeId"> => {
    const leaf = { name, from: FROM, until: new Date(clock.now() + LEAF_MS) };
    return { ...makeLeaf(leaf, { name: NAME, certificate, key }), authority: certificate };
  };
  return {
    /** As PEM. */
    certificate,
    /** A new key for that node, and a certificate of it. The key is only in memory. */
    issue: (nodeId: string): Identity => ({ ...certify(hostOf(nodeId)), nodeId }),
    /** The same for the listener that the agents of remote seats call. It identifies no node. */
    forSeats: () => certify(SEATS_HOST),
  };
}

const DOMAIN = ".millrace.internal";
const ID = "[0-9a-z][0-9a-z-]{0,61}";
const ONLY_ID = new RegExp(`^${ID}$`);
const ONLY_NAME = new RegExp(`^DNS:(${ID})${DOMAIN.replaceAll(".", "\\.")}$`);

/** The host name in the certificate of a node; it is never looked up. */
export function hostOf(nodeId: string): string {
  if (!ONLY_ID.test(nodeId)) throw new Error(`${JSON.stringify(nodeId)} is not the id of a node`);
  return nodeId + DOMAIN;
}

/** The id of the node that showed this certificate, which the authority has signed; null if it is no node's. */
export function nodeOf({ subjectaltname }: Partial<PeerCertificate>): string | null {
  return ONLY_NAME.exec(subjectaltname ?? "")?.[1] ?? null;
}
