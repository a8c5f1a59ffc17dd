import type { Glance } from "../model/glance.ts";

/** How the apps of a project do, wherever they are served, by number; nothing of a node that does not answer. */
export type Glances = (projectId: string) => Promise<ReadonlyMap<number, Glance>>;
