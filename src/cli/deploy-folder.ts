import { createReadStream, createWriteStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Transform } from "node:stream";
import type { BundleFile } from "../apps/bundles/list-files.ts";
import { writeZip } from "../apps/bundles/write-zip.ts";
import { BEGUN_DEPLOY } from "../shapes/builds.ts";
import type { Api } from "./api/api.ts";
import { explain, explainError } from "./api/explain.ts";
import { send, textOf } from "./api/http.ts";

/** A deploy that the service has begun. */
export type BegunDeploy = { readonly buildId: string; readonly endpoint: string };

/** Begins a deploy, zips the files and uploads them; the build is under way when it resolves. */
export async function uploadApp(
  api: Api,
  name: string,
  files: readonly BundleFile[],
  disableSyntaxCheck: boolean,
  onBytes: (doneBytes: number, ofBytes: number) => void = () => {},
): Promise<BegunDeploy> {
  return await withBundle(files, async (zip) => {
    const begun = await api.ask(BEGUN_DEPLOY, "POST", await api.path("apps"), {
      body: { name, disableSyntaxCheck },
      about: { app: name },
    });
    try {
      await put(api, begun.uploadUrl, zip, onBytes);
    } catch (error) {
      await cancelBuild(api, name, begun.buildId);
      throw error;
    }
    return { buildId: begun.buildId, endpoint: begun.internalEndpoint };
  });
}

/** Zips the files for as long as something is done with the zip. */
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

/** The URL carries its own right: no token goes with it. */
async function put(
  api: Api,
  url: string,
  zip: string,
  onBytes: (doneBytes: number, ofBytes: number) => void,
): Promise<void> {
  const { size } = await stat(zip);
  let doneBytes = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _, done) {
      onBytes((doneBytes += chunk.length), size);
      done(null, chunk);
    },
  });
  try {
    const answer = await send(url, {
      method: "PUT",
      headers: { "content-type": "application/zip", "content-length": String(size) },
      body: createReadStream(zip).pipe(counter),
      signal: api.signal,
    });
    const text = await textOf(answer);
    if (answer.status !== 200) throw explain(answer, text, api.site);
  } catch (error) {
    throw explainError(error);
  }
}
