import type { PeerCertificate } from "node:tls";

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
