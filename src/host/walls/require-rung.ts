import type { Settings } from "../../config/setting-keys.ts";
import { probeRungs } from "./probe.ts";
import { RUNG_REMEDIES, highestRung } from "./rung.ts";
import type { Offer, Rung } from "./rung.ts";

/**
 * The rung that apps live behind; null for none. Throws, with what the host lacks and how to get it, when the
 * setting names a rung that the host does not give.
 */
export async function requireRung(
  { isolation, dataDir, uidRange }: Pick<Settings, "isolation" | "dataDir" | "uidRange">,
  python: string,
): Promise<Rung | null> {
  // In this release a rung has to be named.
  if (isolation === "auto" || isolation === "none") return null;
  const offer = await probeRungs(python, dataDir, uidRange.first);
  const complaint = complaintAbout(isolation, offer);
  if (complaint !== null) throw new Error(complaint);
  return isolation;
}

/** Why the host cannot give a rung, and what to do; null where it can. */
export function complaintAbout(rung: Rung, offer: Offer): string | null {
  const reason = offer[rung];
  if (reason === null) return null;
  const highest = highestRung(offer);
  const instead = highest === null ? "" : `; or set it to ${highest}, which this host gives`;
  return `MILLRACE_ISOLATION=${rung}, but this host cannot give that: ${reason}. ${RUNG_REMEDIES[rung]}${instead}`;
}
