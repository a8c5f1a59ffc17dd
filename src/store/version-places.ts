import path from "node:path";
import type { Version } from "../model/app.ts";
import type { Calls } from "./operations.ts";

type Placed = Pick<Version, "bundleDir"> & Partial<Pick<Version, "environment">>;

/**
 * The calls about versions, with whole paths. The database names folders from the data directory on, so that the
 * directory and its backups can be moved; this is the one place that converts.
 */
export function versionPlaces(versions: Calls["versions"], dataDir: string): Calls["versions"] {
  const whole = (version: Version): Version => change(version, (place) => path.resolve(dataDir, place));
  return {
    ...versions,
    insert: async (version) =>
      whole(await versions.insert(change(version, (place) => nameOf(place, dataDir)))),
    find: async (id) => {
      const found = await versions.find(id);
      return found && whole(found);
    },
    list: async (appNumber) => (await versions.list(appNumber)).map(whole),
    listAll: async () => (await versions.listAll()).map(whole),
    setEnvironment: async ({ id, environment }) =>
      await versions.setEnvironment({ id, environment: environment && nameOf(environment, dataDir) }),
  };
}

function change<T extends Placed>(version: T, convert: (place: string) => string): T {
  const { bundleDir, environment } = version;
  return {
    ...version,
    bundleDir: convert(bundleDir),
    ...(environment && { environment: convert(environment) }),
  };
}

function nameOf(place: string, dataDir: string): string {
  const name = path.relative(dataDir, place);
  // It would be lost as soon as the data directory is moved.
  if (name === "" || name.startsWith("..") || path.isAbsolute(name)) {
    throw new Error(`${place} is not in the data directory ${dataDir}`);
  }
  return name;
}
