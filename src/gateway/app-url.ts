import type { AppRoute } from "./route.ts";

/** The address of an app as its caller knows it: by the public URL, else by the Host that was asked for. */
export function appUrl(
  { projectId, appName }: AppRoute,
  publicApiUrl: string | null,
  host: string | undefined,
): string {
  // HTTP/1.0 may come without a Host; then the path has to do.
  const apiUrl = publicApiUrl ?? (host ? `http://${host}` : "");
  return `${apiUrl}/v4/${projectId}/${appName}`;
}
