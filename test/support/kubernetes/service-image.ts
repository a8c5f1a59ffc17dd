import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { makeImage } from "../../../scripts/worker-image.ts";
import { BUILT_PACKAGE } from "../command-line.ts";
import { copyProgram, fill } from "../images/base-image.ts";
import { REPOSITORY } from "../source-files.ts";
import { giveToMachines } from "./cluster-setup.ts";
import { TEST_CLUSTER } from "./real-cluster.ts";

const NAME = "localhost/millrace";
const TAG = "test";
/** The same as in the Dockerfile. */
const HOME = "opt/millrace";
/** What `bin/millrace` runs. */
const PROGRAMS = ["/usr/bin/readlink", "/usr/bin/dirname", "/usr/bin/tr", "/bin/date"];

/** Makes an image of the service as it is now, with this host's own Node and Python, for a cluster of this machine. */
export async function makeServiceImage(): Promise<{ repository: string; tag: string }> {
  const cluster = TEST_CLUSTER?.folder ?? "";
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-service-image-"));
  try {
    const root = path.join(folder, "root");
    mkdirSync(root);
    await fill(root);
    for (const program of PROGRAMS) copyProgram(program, root);
    copyProgram(process.execPath, root, path.join(HOME, "node_modules/.bin/node"));
    for (const name of ["package.json", "bin", "dist"])
      cpSync(path.join(BUILT_PACKAGE, name), path.join(root, HOME, name), { recursive: true });
    for (const name of ["python", "examples"])
      cpSync(path.join(REPOSITORY, name), path.join(root, HOME, name), { recursive: true });
    writeFileSync(path.join(root, "etc/passwd"), "millrace:x:10001:10001::/tmp:/bin/sh\n");
    execFileSync("chmod", ["-R", "u=rwX,go=rX", root]);
    const out = path.join(folder, "service.tar");
    const start = { WorkingDir: `/${HOME}`, Entrypoint: ["bin/millrace"], Cmd: ["serve"] };
    await makeImage({ base: null, layers: [root], name: `${NAME}:${TAG}`, out, start });
    giveToMachines(path.dirname(cluster), out);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { repository: NAME, tag: TAG };
}
