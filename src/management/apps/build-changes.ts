import { isDeepStrictEqual } from "node:util";
import type { Version } from "../../model/app.ts";
import { AppError } from "../../model/errors.ts";
import type { ConfigValue } from "../../shapes/apps.ts";
import type { BuildChanges } from "../../shapes/builds.ts";
import { entriesOf } from "./apps.ts";

/** What the version of a build changes in the one before it; throws `build_not_found` if it has none. */
export function changesOf(buildId: string, versions: readonly Version[]): BuildChanges {
  const version = versions.find(({ id }) => id === buildId);
  if (!version) throw new AppError("build_not_found", { message: "The build has no version." });
  const earlier = versions.filter(({ number }) => number < version.number);
  const before = earlier.toSorted((a, b) => b.number - a.number)[0];
  if (!before) return { before: null, sameFiles: null, changes: [] };
  const [was, is] = [valuesOf(before), valuesOf(version)];
  const keys = new Set([...was.keys(), ...is.keys()]);
  return {
    before: { buildId: before.id, version: before.number },
    sameFiles: sameFiles(before, version),
    changes: Array.from(keys, (key) => ({
      key,
      before: was.get(key) ?? null,
      after: is.get(key) ?? null,
    })).filter((change) => !isDeepStrictEqual(change.before, change.after)),
  };
}

/** Everything that can be told of a version in a word: its configuration, and the names of its functions. */
function valuesOf({ config, functions }: Version): Map<string, ConfigValue> {
  const values = new Map(entriesOf(config, config).map(({ key, value }) => [key, value]));
  // Unknown until a replica has reported them.
  if (functions) values.set("functions", functions.map(({ name }) => name).toSorted());
  return values;
}

function sameFiles(a: Version, b: Version): boolean | null {
  if (a.bundleHash !== null && b.bundleHash !== null) return a.bundleHash === b.bundleHash;
  if (a.bundleBlob !== null && b.bundleBlob !== null) return a.bundleBlob === b.bundleBlob;
  return null;
}
