import { mkdirSync } from "node:fs";
import path from "node:path";
import { scratchDirectory } from "./command-line.ts";

/** Folders of a command's own, and settings of somebody who has a service already: it must touch none of that. */
export function untouchedPlace(): { env: Record<string, string>; dataDir: string; temporary: string } {
  const folder = scratchDirectory();
  const [dataDir, temporary] = [path.join(folder, "data"), path.join(folder, "tmp")];
  mkdirSync(temporary);
  const env = {
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_DATABASE_URL: "postgres://127.0.0.1:1/none",
    TMPDIR: temporary,
    XDG_RUNTIME_DIR: temporary,
  };
  return { env, dataDir, temporary };
}
