import type { BlobStore } from "../blobs/blob-store.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { Lifecycle } from "../kit/lifecycle.ts";
import type { Seal } from "../kit/seal.ts";
import type { BuildSeats } from "../engines/build-seats.ts";
import { VersionFiles } from "./artifacts/version-files.ts";
import type { BuildHost, ImageHost } from "./builds/site.ts";
import { type AppLogLine, Catalog, type CatalogParts } from "./catalog.ts";
import { LogBook } from "./logs/log-book.ts";
import { LogShare } from "./logs/line-writer.ts";
import { fileContext } from "./once/file-context.ts";
import { Repairs } from "./repair-environments.ts";
import { Secrets } from "./secrets.ts";
import type { StorageWatch } from "../store/upkeep/storage-watch.ts";
import { Deployer, type DeployerParts } from "./deploys/deployer.ts";
import { type BaseImageParts, BaseImages } from "./once/base-images.ts";
import { Volumes, type VolumesParts } from "./volumes/volumes.ts";

type AppsParts = Omit<CatalogParts, "secrets" | "onLog" | "files"> &
  BuildHost & {
    readonly images: ImageHost;
    /** Where environments are built that are not for this machine; null where all are. */
    readonly builds: BuildSeats | null;
    readonly maxScratchBytes: number;
    /** Where nodes find the files of each other's versions; null for a service alone. */
    readonly blobs: BlobStore | null;
    readonly seal: Seal;
    readonly reserve: Pick<DiskReserve, "isNear" | "shortage">;
    /** Of all apps' logs together. */
    readonly maxLogBytes: number;
    /** Learns of every line that an app prints, besides the log book. */
    readonly onAppLog: ((line: AppLogLine) => void) | undefined;
  };

/** Builds and starts what apps need to take calls: their logs, their secrets, the catalogue, repairs. */
export async function startApps(parts: AppsParts, life: Lifecycle) {
  const { store, seal, clock, log, reserve, onAppLog, blobs, builds } = parts;
  const known = (environment: string) => store.versionBlobs.ofEnvironment(environment);
  const remote = builds && blobs && { seats: builds, blobs, known, maxFolderBytes: parts.maxScratchBytes };
  const share = new LogShare({ store, maxBytes: parts.maxLogBytes, reserve });
  const logBook = await life.start(
    "apps' logs",
    () => LogBook.open({ store, clock, log, share }),
    (opened) => opened.stop(),
  );
  const onLog = (line: AppLogLine): void => {
    logBook.add(line);
    onAppLog?.(line);
  };
  const secrets = new Secrets(store, seal, clock);
  const files = await life.start(
    "files of versions",
    async () => {
      const opened = blobs && new VersionFiles({ ...parts, blobs, remote });
      await opened?.start();
      return opened;
    },
    (opened) => opened?.stop(),
  );
  const catalog = await life.start(
    "apps",
    () => Catalog.open({ ...parts, files, secrets, onLog }),
    (opened) => opened.close({ kind: "refused", code: "draining" }),
  );
  share.limitApps((appNumber) => catalog.maxLogBytes(appNumber));
  const repairs = await life.start(
    "repairs",
    () => new Repairs({ ...parts, remote, onRebuilt: (version) => catalog.rebuilt(version) }),
    (started) => started.stop(),
  );
  const context = fileContext({ catalog, secrets, onLog });
  return { logBook, onLog, secrets, files, remote, catalog, repairs, fileContext: context };
}

type DeploysParts = Omit<DeployerParts, "shortage"> &
  Pick<BaseImageParts, "onLog"> &
  Pick<VolumesParts, "storage" | "helper"> & { readonly reserve: Pick<StorageWatch, "refusal"> };

/** Starts what receives uploads. The caller stops the deployer, because it must stop before the apps do. */
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
