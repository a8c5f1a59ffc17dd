import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

/** Finds every address of a name; rejects when there is none. */
export type Resolve = (name: string) => Promise<readonly string[]>;

const HOSTS_FILE = "/etc/hosts";
const QUERY_MS = 2_000;
const TRIES = 2;

/**
 * Asks the hosts file, then the name servers: the machine's, unless others are given. Not by `dns.lookup`: that
 * waits in one of the few threads that all file access goes through, so that a few names with silent servers
 * would hold up the whole service.
 */
export function nameResolver(servers?: readonly string[]): Resolve {
  return async (name) => {
    const known = hostsEntries(await readFile(HOSTS_FILE, "utf8").catch(() => ""), name);
    if (known.length > 0) return known;
    // These never leave the machine, whatever a name server would say.
    if (/(?:^|\.)localhost$/i.test(name)) return ["127.0.0.1", "::1"];
    // A new one each time: it reads the machine's settings when it is made.
    const resolver = new Resolver({ timeout: QUERY_MS, tries: TRIES });
    if (servers) resolver.setServers(servers);
    const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = [four, six].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length === 0 && four.status === "rejected") throw four.reason;
    return found;
  };
}

/** The addresses that a hosts file gives a name. */
export function hostsEntries(file: string, name: string): string[] {
  const wanted = name.toLowerCase();
  return file.split("\n").flatMap((line) => {
    const [address = "", ...names] = (line.split("#")[0] ?? "").trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((entry) => entry.toLowerCase() === wanted) ? [address] : [];
  });
}
