import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { BundleFile } from "../../apps/bundles/list-files.ts";
import { writeZip } from "../../apps/bundles/write-zip.ts";
import { BEGUN_DEPLOY } from "../../shapes/builds.ts";
import { CliFailure } from "../failure.ts";
import type { Api } from "./api.ts";
import { bundleFilesOf, readAppFolder } from "./app-folder.ts";
import { followBuild } from "./builds.ts";
import { countBytes } from "./http.ts";

/** Begins a deploy, zips the files and uploads them; the build is under way when it resolves. */
export async function uploadApp(
  api: Api,
  name: string,
  files: readonly BundleFile[],
  disableSyntaxCheck: boolean,
  onBytes: (doneBytes: number, ofBytes: number) => void = () => {},
): Promise<{ readonly buildId: string; readonly endpoint: string }> {
  return await withBundle(files, async (zip) => {
    const begun = await api.ask(BEGUN_DEPLOY, "POST", await api.path("apps"), {
      body: { name, disableSyntaxCheck },
      about: { app: name },
    });
    try {
      const { size } = await stat(zip);
      let doneBytes = 0;
      const bytes = createReadStream(zip).pipe(countBytes((count) => onBytes((doneBytes += count), size)));
      await api.put(begun.uploadUrl, bytes, size, "application/zip");
    } catch (error) {
      await cancelBuild(api, name, begun.buildId);
      throw error;
    }
    return { buildId: begun.buildId, endpoint: begun.internalEndpoint };
  });
}

/** Zips the files for as long as the work takes. */
export async function withBundle<Done>(
  files: readonly BundleFile[],
  work: (zip: string) => Promise<Done>,
): Promise<Done> {
  const aside = await mkdtemp(path.join(tmpdir(), "millrace-deploy-"));
  try {
    const zip = path.join(aside, "bundle.zip");
    await writeZip(files, createWriteStream(zip, { mode: 0o600 }));
    return await work(zip);
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

/** Asks the service to end a build that the command began; one that has ended stays as it is. */
export async function cancelBuild(api: Api, name: string, buildId: string): Promise<boolean> {
  const path = await api.appPath(name, `/builds/${buildId}`);
  const answer = await api.open("DELETE", path, { isParting: true }).catch(() => null);
  answer?.body.resume();
  return answer?.status === 200;
}

/** Deploys an app of this command's own; resolves with its build's lines once it serves. */
export async function deploySources(api: Api, name: string, folder: string): Promise<string[]> {
  const { buildId } = await uploadApp(api, name, await bundleFilesOf(readAppFolder(folder, name)), true);
  const lines: string[] = [];
  const { status } = await followBuild(api, name, buildId, ({ log }) => lines.push(log));
  if (status === "success") return lines;
  throw new CliFailure(`the app does not start: ${status}`, { details: lines, hint: "millrace doctor" });
}
