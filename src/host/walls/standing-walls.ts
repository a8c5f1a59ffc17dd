import type { Rung } from "./rung.ts";

/** What stands around an app elsewhere, and why that judges no connections; null where it does. */
export type StandingWalls = { readonly level: Rung | "none"; readonly gap: string | null };
