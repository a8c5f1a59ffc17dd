import type { Glance } from "../model/app.ts";

/** How the apps of a project do, wherever they are served, by number; nothing of a node that does not answer. */
export type Glances = (projectId: string) => Promise<ReadonlyMap<number, Glance>>;

type Glancing = { glances(projectId: string): readonly Glance[] | Promise<readonly Glance[]> };

/** Asks those who serve apps: this service, and the other nodes if there are any. */
export function glancesBy(...served: readonly (Glancing | null)[]): Glances {
  return async (projectId) => {
    const parts = await Promise.all(served.map(async (each) => (await each?.glances(projectId)) ?? []));
    return new Map(parts.flat().map((glance) => [glance.appNumber, glance]));
  };
}
