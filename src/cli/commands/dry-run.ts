import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { BundleFile } from "../../apps/bundles/list-files.ts";
import { DRY_RUN } from "../../shapes/builds.ts";
import { withBundle } from "../deploy-folder.ts";
import { EXIT } from "../failure.ts";
import { paint, printable } from "../output/paint.ts";
import type { Task } from "../task.ts";

/** Has the service check a bundle without building it, and prints what a deploy would do; fails if it would fail. */
export async function dryRun(
  { api, out }: Task,
  name: string,
  files: readonly BundleFile[],
  disableSyntaxCheck: boolean,
): Promise<void> {
  const found = await withBundle(files, async (zip) => {
    const { size } = await stat(zip);
    return await api.ask(DRY_RUN, "POST", await api.path("deploys/dry-run"), {
      query: { name, disableSyntaxCheck },
      body: createReadStream(zip),
      headers: { "content-type": "application/zip", "content-length": String(size) },
    });
  });
  const { isNew, plan, warnings, problems } = found;
  out.show(found, () =>
    printable(
      [
        `A deploy would ${isNew ? `create the app ${name}` : `replace the current version of ${name}`}:`,
        ...plan.map((step) => `  ${step}`),
        ...warnings.map((text) => `${paint("yellow", "warning:")} ${text}`),
        ...problems.map((text) => `${paint("red", "problem:")} ${text}`),
        problems.length === 0 ? "Nothing was changed." : "It would fail. Nothing was changed.",
        "",
      ].join("\n"),
    ),
  );
  if (problems.length > 0) process.exitCode = EXIT.failure;
}
