import path from "node:path";
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** The package's own folder. `python/`, `examples/` and `dist/` are in it, whether this runs from sources or built. */
export const PACKAGE_DIR: string = findPackage(import.meta.dirname);

/** The folder that holds the package `millrace_worker`. */
export const PYTHON_DIR: string = path.join(PACKAGE_DIR, "python");

/** The script of a thread, given its path below `src/` without an ending. */
export function threadScript(name: string): URL {
  const isBuilt = import.meta.url.endsWith(".js");
  return pathToFileURL(path.join(PACKAGE_DIR, isBuilt ? `dist/${name}.js` : `src/${name}.ts`));
}

/** The nearest folder above with a `package.json`: bundled code is not as deep as its sources. */
function findPackage(folder: string): string {
  if (existsSync(path.join(folder, "package.json"))) return folder;
  const above = path.dirname(folder);
  if (above === folder) throw new Error(`no package.json above ${import.meta.dirname}`);
  return findPackage(above);
}

const { version } = JSON.parse(readFileSync(path.join(PACKAGE_DIR, "package.json"), "utf8")) as {
  version: string;
};

/** The version of this release. */
export const VERSION: string = version;
