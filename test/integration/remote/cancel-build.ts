import { expect } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import type { LocalPlace } from "../../support/remote/local-place.ts";
import { untilCleared } from "../../support/remote/remote-service.ts";
import { until } from "../../support/until.ts";
import type { DeploySite } from "../deploys/site.ts";

/** A service that has apps built in seats of a place, which keep their files in a folder. */
type Building = { readonly place: LocalPlace; readonly site: DeploySite; readonly folder: string };

/** Cancels a build that has come so far; nothing of it may be left. */
export async function cancelBuild({ place, site, folder }: Building, buildId: string): Promise<void> {
  await site.logged("app", buildId, "asleep");
  expect((await site.cancel("app", buildId)).status).toBe(200);
  expect(await site.status("app", buildId)).toBe("cancelled");
  await place.seats[0]?.exited;
  await until("its processes are gone", () => processesIn(folder).length === 0);
  await untilCleared(folder);
  expect(await site.leftovers()).toEqual([]);
}
