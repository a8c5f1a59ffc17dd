import type { TestApp } from "../support/service.ts";
import { LEDGER_APP } from "../support/ledger.ts";

/** Started often enough that no kill of a replica makes a run fail. */
const TOML = "[scaling]\nmax_replicas = 3\ncooldown = 3\nmax_attempts = 20\n";

/** The app under load: it writes every execution down. Each deploy is another version of it. */
export function loadedApp(version: number): TestApp {
  const main = `${LEDGER_APP}
VERSION = ${version}

def stream(n, run_id, count, ms=0, kb=1):
    note("begin", run_id)
    for i in range(count):
        yield "%d %s" % (i, "x" * (kb * 1024))
        time.sleep(ms / 1000)
    note("end", run_id)
`;
  return { main, toml: TOML };
}

/** An app that is asleep most of the time. */
export const SLEEPER: TestApp = {
  main: "def run(n):\n    return 2 * n + 1\n",
  toml: "[scaling]\nmax_replicas = 1\ncooldown = 1\n",
};
