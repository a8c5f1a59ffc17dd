import { AppError } from "../../model/errors.ts";
import { appId } from "../../model/names.ts";
import type { App } from "../../model/app.ts";
import type { Store } from "../../store/store.ts";

/** The app of the path; throws `app_not_found`. */
export async function findApp(
  store: Store,
  { project_id: projectId, app_id: id }: { readonly project_id: string; readonly app_id: string },
): Promise<App> {
  const name = nameIn(projectId, id);
  const app = name === null ? null : await store.apps.find({ projectId, name });
  if (!app) throw new AppError("app_not_found");
  return app;
}

/** The name in the id of an app of that project; null for an id of another form. */
export function nameIn(projectId: string, id: string): string | null {
  const prefix = appId(projectId, "");
  return id.startsWith(prefix) ? id.slice(prefix.length) : null;
}
