/**
 * Where to go after the sign-in: only ways within the dashboard, or a link could lead elsewhere with somebody who
 * has just typed their password. Null for anything else.
 */
export function wayBack(to: unknown, origin: string): string | null {
  if (typeof to !== "string" || !to.startsWith("/") || !URL.canParse(to, origin)) return null;
  return new URL(to, origin).origin === origin ? to : null;
}
