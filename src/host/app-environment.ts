/**
 * What a replica may see of the service's own environment: where programs are, which language, time zone and
 * devices. Nothing else, so that no key, token or database address of the service reaches an app.
 */
export const ALLOWED = [
  "PATH",
  "HOME",
  "LANG",
  "LANGUAGE",
  "LC_ALL",
  "LC_CTYPE",
  "TZ",
  "TMPDIR",
  "LD_LIBRARY_PATH",
  "CUDA_VISIBLE_DEVICES",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
] as const;

/** The environment of an app's processes. */
export function appEnvironment(
  host: NodeJS.ProcessEnv,
  app: Readonly<Record<string, string>>,
): Record<string, string> {
  const environment: Record<string, string> = { LANG: "C.UTF-8", PYTHONUNBUFFERED: "1" };
  for (const name of ALLOWED) {
    const value = host[name];
    if (value !== undefined) environment[name] = value;
  }
  return { ...environment, ...app };
}
