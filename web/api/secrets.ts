import { queryOptions } from "@tanstack/react-query";
import { SECRET_MAP } from "../../src/shapes/projects.ts";
import type { SecretMap } from "../../src/model/app.ts";
import { appPath } from "./apps.ts";
import { ask } from "./http.ts";

export { SECRET_NAME } from "../../src/shapes/projects.ts";
export type { SecretMap } from "../../src/model/app.ts";

/** Whose secrets: an app's own, or with null those that every app of the project gets. */
export type SecretHolder = { readonly projectId: string; readonly appName: string | null };

/** The secrets of a holder. They leave this page's memory with the page that shows them. */
export function secretsQuery(holder: SecretHolder) {
  return queryOptions({
    queryKey: ["secrets", holder.projectId, holder.appName],
    queryFn: ({ signal }) => ask(SECRET_MAP, pathOf(holder), { signal }),
    gcTime: 0,
  });
}

/** Sets one secret of a holder, or with null takes it away; the others stay as they are by now. */
export async function changeSecret(
  holder: SecretHolder,
  name: string,
  value: string | null,
): Promise<SecretMap> {
  const path = pathOf(holder);
  // The API replaces the whole map.
  const { [name]: _, ...others } = await ask(SECRET_MAP, path);
  const body = value === null ? others : { ...others, [name]: value };
  return await ask(SECRET_MAP, path, { method: "PATCH", body });
}

function pathOf({ projectId, appName }: SecretHolder): string {
  return `${appName === null ? `/v2/projects/${projectId}` : appPath(projectId, appName)}/secrets`;
}
