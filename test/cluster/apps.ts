import { loadedApp } from "../support/server-load.ts";

/** Started often enough that no death of a node makes a run fail; ready again before anybody calls. */
const SCALING = "[scaling]\nmin_replicas = 1\nmax_replicas = 2\nmax_attempts = 20\nreplica_concurrency = 8\n";

/** An app that answers what it is asked, at once or in pieces, and tells its version. */
export function echoApp(version: number): Record<string, string> {
  const main = `
import time

VERSION = ${version}

def run(n, ms=0, pad=0):
    time.sleep(ms / 1000)
    return {"n": n, "version": VERSION, "pad": "x" * pad}

def stream(n, count, ms):
    for i in range(count):
        yield "%d:%d" % (n, i)
        time.sleep(ms / 1000)
`;
  return { "main.py": main, "millrace.toml": SCALING };
}

/** A server app with calls, streams and WebSockets. */
export function socketApp(): Record<string, string> {
  return loadedApp(
    0,
    'min_replicas = 1\nmax_replicas = 2\nreplica_concurrency = 16\nresponse_grace_period = "4s"\n',
  );
}

const many = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${name}-${n + 1}`);

/** Enough of each that every node has some. */
export const ECHOES = many("echo", 8);
export const SOCKETS = many("socket", 2);
export const CHANGING = many("changing", 2);
