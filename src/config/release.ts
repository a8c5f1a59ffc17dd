import { readFileSync } from "node:fs";
import path from "node:path";
import { PACKAGE_DIR } from "./package-files.ts";

const { version } = JSON.parse(readFileSync(path.join(PACKAGE_DIR, "package.json"), "utf8")) as {
  version: string;
};

/** The version of this release. */
export const VERSION: string = version;
