import { queryOptions } from "@tanstack/react-query";
import { placeOf } from "./apps.ts";
import { ask } from "./http.ts";

export type SecretMap = Readonly<Record<string, string>>;

/** What a secret may be called. */
export const SECRET_NAME = /^[A-Za-z0-9_.-]{1,253}$/;

/** An app's own secrets. They leave this page's memory with the page that shows them. */
export function appSecretsQuery(projectId: string, appName: string) {
  return queryOptions({
    queryKey: ["secrets", projectId, appName],
    queryFn: ({ signal }) => ask<SecretMap>(appSecrets(projectId, appName), { signal }),
    gcTime: 0,
  });
}

/** The secrets that every app of a project gets. */
export function projectSecretsQuery(projectId: string) {
  return queryOptions({
    queryKey: ["secrets", projectId],
    queryFn: ({ signal }) => ask<SecretMap>(`/v2/projects/${projectId}/secrets`, { signal }),
    gcTime: 0,
  });
}

/** Sets one secret of an app, or with null takes it away; the others stay as they are by now. */
export async function changeAppSecret(
  projectId: string,
  appName: string,
  name: string,
  value: string | null,
): Promise<SecretMap> {
  const path = appSecrets(projectId, appName);
  // The API replaces the whole map.
  const { [name]: _, ...others } = await ask<SecretMap>(path);
  const body = value === null ? others : { ...others, [name]: value };
  return await ask<SecretMap>(path, { method: "PATCH", body });
}

function appSecrets(projectId: string, appName: string): string {
  return `${placeOf(projectId, appName)}/secrets`;
}
