import type { Lifecycle } from "../kit/lifecycle.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import { Deployer, type DeployerParts } from "./deploys/deployer.ts";
import { type BaseImageParts, BaseImages } from "./once/base-images.ts";
import { Volumes, type VolumesParts } from "./volumes/volumes.ts";

/** What receiving uploads needs. */
export type DeploysParts = Omit<DeployerParts, "shortage"> &
  Pick<BaseImageParts, "onLog"> &
  Pick<VolumesParts, "storage" | "helper"> & { readonly reserve: Pick<StorageWatch, "refusal"> };

/**
 * Builds and starts what receives uploads: volumes, deploys, packages for file runs. The caller has to stop the
 * deployer, because it must stop before the apps do.
 */
export async function startDeploys(parts: DeploysParts, life: Lifecycle) {
  const { reserve } = parts;
  const shortage = () => reserve.refusal;
  const volumes = await life.start(
    "volumes",
    () => new Volumes({ ...parts, shortage }),
    (started) => started.stop(),
  );
  volumes.start();
  const deployer = new Deployer({ ...parts, shortage });
  await deployer.start();
  const baseImages = await life.start(
    "packages for files",
    () => new BaseImages(parts),
    (started) => started.stop(),
  );
  return { volumes, deployer, baseImages };
}
