import { isFinalBuild } from "../model/build.ts";
import { AppError } from "../model/errors.ts";
import type { Owners } from "../nodes/owners.ts";
import type { Store } from "../store/store.ts";

/** How soon to try again while the first build is under way. */
const RETRY_SECONDS = "5";

/**
 * What a caller of an app that takes no calls is told: there is none of that name, no build of it has succeeded, or it
 * cannot be loaded.
 */
export async function whyAbsent(
  store: Pick<Store, "apps" | "builds">,
  key: { readonly projectId: string; readonly name: string },
  owners: Pick<Owners, "whyUnserved"> | null,
): Promise<AppError> {
  const app = await store.apps.find(key);
  if (app && app.currentVersionId !== null) return owners?.whyUnserved(app.number) ?? notHere();
  const latest = app && (await store.builds.latest(app.number));
  if (!latest || latest.status === "success") return new AppError("app_not_found");
  if (!isFinalBuild(latest.status)) {
    const message = `The app's first build is not finished: it is ${latest.status}.`;
    return new AppError("app_not_ready", { message, headers: { "retry-after": RETRY_SECONDS } });
  }
  const why = latest.message === null ? "" : ` (${latest.message})`;
  const message = `The app has no version to serve: its last build ended as ${latest.status}${why}. Deploy it again.`;
  return new AppError("app_not_ready", { message, headers: { "x-should-retry": "false" } });
}

/** It has a version: it is being loaded, or has just gone to another node. */
function notHere(): AppError {
  const message = "The app cannot be served at the moment: it is being loaded, or is moving to another node.";
  return new AppError("app_not_ready", { message, headers: { "retry-after": "1" } });
}
