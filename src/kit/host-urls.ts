/** Everything up to the hosts, the hosts with their ports, and everything after them. */
const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s;

/**
 * The addresses that a Postgres address stands for, one for each host that it names, as libpq reads it:
 * `postgres://user@a:5432,b:5433/name`, or `…?host=a,b&port=5432,5433`. The address itself where it names one.
 */
export function hostUrls(databaseUrl: string): string[] {
  const [, head = "", hosts = "", rest = ""] = PARTS.exec(databaseUrl) ?? [];
  if (hosts.includes(",")) return hosts.split(",").map((host) => head + host + rest);
  if (!URL.canParse(databaseUrl)) return [databaseUrl];
  const url = new URL(databaseUrl);
  const names = url.searchParams.get("host")?.split(",") ?? [];
  const ports = url.searchParams.get("port")?.split(",") ?? [];
  if (names.length < 2) return [databaseUrl];
  return names.map((name, index) => {
    url.searchParams.set("host", name);
    // One port is for all of them.
    const port = ports[index] ?? ports[0];
    if (port !== undefined) url.searchParams.set("port", port);
    return url.href;
  });
}
