import type { Clock } from "../../kit/clock.ts";
import type { App } from "../../model/app.ts";
import { isFinalBuild } from "../../model/build.ts";
import type { Build } from "../../model/build.ts";
import type { Store } from "../../store/store.ts";
import { forgetVersion } from "./carry-out.ts";
import type { DeployFolders } from "./folders.ts";

export type LeftoverParts = {
  readonly store: Store;
  readonly folders: DeployFolders;
  readonly clock: Clock;
  /** Why it did not succeed. */
  readonly message: string;
};

/**
 * Ends a build that its service left unfinished: as a success if its version serves, for then only the last word
 * was missing; else as a failure that leaves nothing behind.
 */
export async function settleLeftover(
  { id }: Build,
  app: App | undefined,
  { store, folders, clock, message }: LeftoverParts,
): Promise<void> {
  // It may have ended since it was found.
  const build = await store.builds.find(id);
  if (!build || isFinalBuild(build.status)) return;
  const now = clock.now();
  if (app?.currentVersionId === id) {
    await store.builds.move({ id, to: "success", message: null, now });
    return;
  }
  if (app) await forgetVersion({ store, folders }, { ...app, versionId: id });
  await store.builds.move({ id, to: "build_failure", message, now });
}
