/** What opens registries of images: of Docker's own configuration nothing but that. */
export type RegistryAuth = {
  readonly auths: Readonly<Record<string, { readonly auth: string }>>;
};

const MAX_CHARS = 64 * 1024;

/** Reads what a client sends, its Docker configuration as text; null for anything else, and where nothing is in it. */
export function readRegistryAuth(sent: unknown): RegistryAuth | null {
  if (typeof sent !== "string" || sent.length > MAX_CHARS) return null;
  let auths: unknown;
  try {
    auths = (JSON.parse(sent) as { auths?: unknown } | null)?.auths;
  } catch {
    return null;
  }
  if (typeof auths !== "object" || auths === null) return null;
  const usable = Object.entries(auths).flatMap(([registry, entry]: [string, unknown]) => {
    const auth = (entry as { auth?: unknown } | null)?.auth;
    return typeof auth === "string" && auth !== "" ? [[registry, { auth }] as const] : [];
  });
  // The rest of such a file may name programs to run.
  return usable.length === 0 ? null : { auths: Object.fromEntries(usable) };
}
