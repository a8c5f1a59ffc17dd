import type { Api } from "./api/api.ts";
import { bundleFilesOf, readAppFolder } from "./app-folder.ts";
import { followBuild } from "./commands/follow-build.ts";
import { uploadApp } from "./deploy-folder.ts";
import { CliFailure } from "./failure.ts";

/** Deploys an app of this command's own, and resolves with the lines of its build when it serves; throws if it does not. */
export async function deploySources(api: Api, name: string, folder: string): Promise<string[]> {
  const { buildId } = await uploadApp(api, name, await bundleFilesOf(readAppFolder(folder, name)), true);
  const lines: string[] = [];
  const { status } = await followBuild(api, name, buildId, ({ log }) => lines.push(log));
  if (status === "success") return lines;
  throw new CliFailure(`the app does not start: ${status}`, { details: lines, hint: "millrace doctor" });
}
