import type { RequestHead } from "./request-head.ts";
import type { AppRoute } from "./route.ts";

/** The part of an exchange that determines the app's address. */
type Place = { readonly isOnAppHost: boolean; readonly head: Pick<RequestHead, "host"> | null };

/** The path prefix of an app; empty on its own host. */
export function appPath(
  { isOnAppHost }: Pick<Place, "isOnAppHost">,
  { projectId, appName }: AppRoute,
): string {
  return isOnAppHost ? "" : `/v4/${projectId}/${appName}`;
}

/** The URL of an app as its caller sees it: on its own host, else by the public URL, else by the Host header. */
export function appUrl(place: Place, route: AppRoute, publicApiUrl: string | null): string {
  const host = place.head?.host ?? null;
  // The public URL tells whether there is TLS in front.
  if (place.isOnAppHost) return `${publicApiUrl?.startsWith("https:") ? "https:" : "http:"}//${host}`;
  // HTTP/1.0 may come without a Host; then the path has to do.
  const apiUrl = publicApiUrl ?? (host === null ? "" : `http://${host}`);
  return apiUrl + appPath(place, route);
}
