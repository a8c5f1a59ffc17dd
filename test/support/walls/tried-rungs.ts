import { RUNGS } from "../../../src/host/walls/rung.ts";
import type { Rung } from "../../../src/host/walls/rung.ts";

const isWhole = process.env["MILLRACE_WALLS_WHOLE"] === "true";
const isRoot = process.getuid?.() === 0;

/** All with `npm run test:walls`; else two that differ most: one that shares its view of the host, one with its own. */
export const TRIED_RUNGS: readonly Rung[] = isWhole ? RUNGS : ["landlock", isRoot ? "uid" : "userns"];

/** Where the attacks are tried, which take longest. `doctor --escape` tries them on the strongest that there is. */
export const ATTACKED_LEVELS: readonly (Rung | "none")[] = isWhole ? ["none", ...RUNGS] : ["landlock"];
