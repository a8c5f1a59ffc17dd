/**
 * Matches a cookie of the service in a Cookie or Set-Cookie header. The dashboard's cookie reaches apps if both have the
 * same host. A nameless cookie is sent back as its value alone: `=millrace_x=1` comes back as `millrace_x=1`.
 */
const OWN = /^[\s=]*(?:__(?:host|secure)-)?millrace_/i;
const MAY_BE_OWN = /millrace_/i;
const DOMAIN = /^\s*domain\s*(?:=|$)/i;
const MAY_HAVE_DOMAIN = /domain/i;

/** Removes the service's cookies from a Cookie header; may return an empty string. */
export function otherCookies(cookies: string): string {
  if (!MAY_BE_OWN.test(cookies)) return cookies;
  return cookies
    .split(";")
    .map((cookie) => cookie.trim())
    .filter((cookie) => !OWN.test(cookie))
    .join("; ");
}

/**
 * Removes `Domain` from an app's `Set-Cookie`, so that the cookie is sent to this host only. Null if the cookie is one of
 * the service's.
 */
export function hostCookie(value: string): string | null {
  if (OWN.test(value)) return null;
  if (!MAY_HAVE_DOMAIN.test(value)) return value;
  const [pair = "", ...attributes] = value.split(";");
  return [pair, ...attributes.filter((attribute) => !DOMAIN.test(attribute))].join(";");
}
