import type { Rung } from "../walls/rung.ts";
import { findHierarchy } from "./find-hierarchy.ts";
import { HostLimits, enforcementOf } from "./host-limits.ts";
import type { LimitSettings } from "./host-limits.ts";
import type { AppLimits, Enforcement } from "./limits.ts";

/** Finds out, by trying, what this host can hold apps to, and prepares it. */
export async function findLimits(settings: LimitSettings, rung: Rung | null): Promise<AppLimits> {
  return new HostLimits(await findHierarchy(settings.dataDir), settings, rung);
}

/** What `findLimits` would find, for whoever is not the service. */
export async function lookAtLimits(settings: LimitSettings, rung: Rung | null): Promise<Enforcement> {
  return enforcementOf(await findHierarchy(settings.dataDir, false), settings, rung);
}
