import type { Settings } from "../../config/setting-keys.ts";
import { probeRungs } from "./probe.ts";
import { RUNGS, RUNG_REMEDIES, highestRung } from "./rung.ts";
import type { Offer, Rung } from "./rung.ts";

/** What apps live behind. */
export type Isolated = {
  /** Null for nothing. */
  readonly rung: Rung | null;
  /** Why apps live behind nothing, and what to do about it; null where they do not. */
  readonly lack: string | null;
};

/**
 * Finds the strongest rung that the host gives. Throws, with what the host lacks and how to get it, when that is weaker
 * than the setting names.
 */
export async function requireRung(
  { isolation, dataDir, uidRange }: Pick<Settings, "isolation" | "dataDir" | "uidRange">,
  python: string,
  reads: readonly string[],
): Promise<Isolated> {
  if (isolation === "none") return { rung: null, lack: "MILLRACE_ISOLATION=none" };
  const offer = await probeRungs({ python, dataDir, reads, user: uidRange.first });
  const complaint = isolation === "auto" ? null : complaintAbout(isolation, offer);
  if (complaint !== null) throw new Error(complaint);
  const rung = highestRung(offer);
  return { rung, lack: rung === null ? lackOf(offer) : null };
}

/** Why the host gives apps no walls at all, and what to do. */
export function lackOf({ process: reason }: Offer): string {
  return `this host gives none: ${reason}. ${RUNG_REMEDIES.process}`;
}

/** Why the host can give neither a rung nor one above it, and what to do; null where it can. */
export function complaintAbout(rung: Rung, offer: Offer): string | null {
  const highest = highestRung(offer);
  if (highest !== null && RUNGS.indexOf(highest) >= RUNGS.indexOf(rung)) return null;
  const instead = highest === null ? "" : `; or set it to ${highest}, which this host gives`;
  return `MILLRACE_ISOLATION=${rung}, but this host cannot give that: ${offer[rung]}. ${RUNG_REMEDIES[rung]}${instead}`;
}
