import { WALL_LEVELS, type WallLevel } from "../../../src/host/walls/walls.ts";
import { type Whose, WHOSE } from "./kept-storage.ts";

const isWhole = process.env["MILLRACE_WALLS_WHOLE"] === "true";
const isRoot = process.getuid?.() === 0;

/** All with `npm run test:walls`; else the one that a service has where the host gives all. */
export const TRIED_LEVELS: readonly WallLevel[] = isWhole ? WALL_LEVELS : [isRoot ? "uid" : "userns"];

/** Where the attacks are tried, which take longest. `doctor --escape` tries them on the strongest that there is. */
export const ATTACKED_LEVELS: readonly (WallLevel | "none")[] = isWhole
  ? ["none", ...WALL_LEVELS]
  : ["landlock"];

/** Whose files an app's storage holds: a project's are read by a process of its user, which takes its time. */
export const TRIED_OWNERS: readonly Whose[] = isWhole ? WHOSE : ["the service"];

/** How often an app races against each operation on its storage. */
export const RACES = isWhole ? 6 : 2;
