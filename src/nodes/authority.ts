import { type Certified, makeAuthority, makeLeaf, NO_END } from "../kit/x509.ts";
import type { Clock } from "../kit/clock.ts";
import type { Seal } from "../kit/seal.ts";
import type { Store } from "../store/store.ts";
import type { PeerCertificate } from "node:tls";

/** By what a node proves to others which one it is: its certificate and key, and the authority that both sides trust. */
export type Identity = Certified & { readonly nodeId: string; readonly authority: string };

/** What every service shows to the agents of seats elsewhere, whatever its address; no node's name. */
const SEATS_HOST = "home.seats.millrace.internal";

/** Also where the key is kept: in that row of `meta`. */
const KEY = "authority";
const CONTEXT = "meta/authority";
const NAME = "Millrace installation";
/** No node runs for longer without a new start: ten years. */
const LEAF_MS = 3652 * 24 * 60 * 60 * 1000;
/** Long before any of them is made: no two clocks agree, and nothing depends on when one begins to count. */
const FROM = new Date("2020-01-01T00:00:00Z");

type AuthorityParts = {
  readonly store: { readonly meta: Pick<Store["meta"], "get" | "setIfAbsent"> };
  readonly seal: Seal;
  readonly clock: Pick<Clock, "now">;
};

/** The installation's own authority: whoever has a certificate of it is one of its nodes. */
export class Authority {
  /** As PEM. */
  readonly certificate: string;
  readonly #key: string;
  readonly #clock: Pick<Clock, "now">;

  private constructor({ certificate, key }: Certified, clock: Pick<Clock, "now">) {
    this.certificate = certificate;
    this.#key = key;
    this.#clock = clock;
  }

  /** The one in the database; made by the first node that looks for it. Its key is sealed with the master key. */
  static async open({ store, seal, clock }: AuthorityParts): Promise<Authority> {
    const stored =
      (await store.meta.get(KEY)) ??
      // Of two that are made at once, all take the one that was stored first.
      (await store.meta.setIfAbsent({ key: KEY, value: sealed(made(), seal) }));
    const certified = JSON.parse(seal.open(Buffer.from(stored, "base64"), CONTEXT).toString()) as Certified;
    return new Authority(certified, clock);
  }

  /** A new key for that node, and a certificate of it. The key is in memory alone. */
  issue(nodeId: string): Identity {
    return { ...this.#certify(hostOf(nodeId)), nodeId };
  }

  /** The same for where the agents of seats elsewhere call. No node takes it for another. */
  forSeats(): Omit<Identity, "nodeId"> {
    return this.#certify(SEATS_HOST);
  }

  #certify(name: string): Omit<Identity, "nodeId"> {
    const leaf = makeLeaf(
      { name, from: FROM, until: new Date(this.#clock.now() + LEAF_MS) },
      { name: NAME, certificate: this.certificate, key: this.#key },
    );
    return { ...leaf, authority: this.certificate };
  }
}

function made(): Certified {
  return makeAuthority({ name: NAME, from: FROM, until: NO_END });
}

function sealed(certified: Certified, seal: Seal): string {
  return seal.close(Buffer.from(JSON.stringify(certified)), CONTEXT).toString("base64");
}

const DOMAIN = ".millrace.internal";
const ID = "[0-9a-z][0-9a-z-]{0,61}";
const ONLY_ID = new RegExp(`^${ID}$`);
const ONLY_NAME = new RegExp(`^DNS:(${ID})${DOMAIN.replaceAll(".", "\\.")}$`);

/** The host name in the certificate of a node: nobody looks it up. */
export function hostOf(nodeId: string): string {
  if (!ONLY_ID.test(nodeId)) throw new Error(`${JSON.stringify(nodeId)} is not the id of a node`);
  return nodeId + DOMAIN;
}

/** The id of the node that showed this certificate, which the authority has signed; null if it is no node's. */
export function nodeOf({ subjectaltname }: Partial<PeerCertificate>): string | null {
  return ONLY_NAME.exec(subjectaltname ?? "")?.[1] ?? null;
}
