import { RUNGS } from "../../../src/host/walls/rung.ts";
import type { Rung } from "../../../src/host/walls/rung.ts";

const isWhole = process.env["MILLRACE_WALLS_WHOLE"] === "true";
const isRoot = process.getuid?.() === 0;

const STRONGEST = isRoot ? "uid" : "userns";

/** All with `npm run test:walls`; else two that differ most: one that shares its view of the host, one with its own. */
export const TRIED_RUNGS: readonly Rung[] = isWhole ? RUNGS : ["landlock", STRONGEST];

/** For what takes long: all with `npm run test:walls`, else the one that a service has where the host gives all. */
export const LONG_TRIED_RUNGS: readonly Rung[] = isWhole ? RUNGS : [STRONGEST];

/** Where the attacks are tried, which take longest. `doctor --escape` tries them on the strongest that there is. */
export const ATTACKED_LEVELS: readonly (Rung | "none")[] = isWhole ? ["none", ...RUNGS] : ["landlock"];

/** How often an app races against each operation on its storage. */
export const RACES = isWhole ? 6 : 2;
