import { artifactFolder, artifactId } from "../host/artifacts.ts";
import type { Version } from "../model/app.ts";
import type { Calls } from "./operations.ts";

type Placed = Pick<Version, "bundleDir"> & Partial<Pick<Version, "environment">>;

/**
 * The calls about versions, with whole paths. The database names folders from the data directory on, so that the
 * directory and its backups can be moved; this is the one place that converts.
 */
export function versionPlaces(versions: Calls["versions"], dataDir: string): Calls["versions"] {
  const whole = (version: Version): Version => change(version, (id) => artifactFolder(id, dataDir));
  return {
    ...versions,
    insert: async (version) =>
      whole(await versions.insert(change(version, (folder) => artifactId(folder, dataDir)))),
    find: async (id) => {
      const found = await versions.find(id);
      return found && whole(found);
    },
    list: async (appNumber) => (await versions.list(appNumber)).map(whole),
    listAll: async () => (await versions.listAll()).map(whole),
    setEnvironment: async ({ id, environment }) =>
      await versions.setEnvironment({ id, environment: environment && artifactId(environment, dataDir) }),
  };
}

function change<T extends Placed>(version: T, convert: (folder: string) => string): T {
  const { bundleDir, environment } = version;
  return {
    ...version,
    bundleDir: convert(bundleDir),
    ...(environment && { environment: convert(environment) }),
  };
}
