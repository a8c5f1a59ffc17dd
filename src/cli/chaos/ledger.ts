import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

/** The app under load: it writes every execution into a file, one line at its beginning and one at its end. */
export const LEDGER_APP = {
  name: "ledger",
  main: `import os
import time

LEDGER = os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger")


def note(word, run_id):
    # A short line in one write to a file opened for appending is never torn.
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(ledger, f"{word} {run_id} {os.getpid()}\\n".encode())
    os.close(ledger)


def run(n: int, run_id: str, ms: float = 0):
    note("begin", run_id)
    time.sleep(ms / 1000)
    note("end", run_id)
    return 2 * n + 1
`,
  toml: `[deployment]
name = "ledger"

[scaling]
max_replicas = 2
max_attempts = 3
`,
} as const;

/** What `run` of the app returns. */
export function resultOf(n: number): number {
  return 2 * n + 1;
}

/** What the app's file says of each run. */
export class Ledger {
  /** How often each run began. */
  readonly begins = new Map<string, number>();
  readonly ended = new Set<string>();
  /** The process that executed each run, the latest if there were several. */
  readonly pids = new Map<string, number>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [word, id = "", pid] = line.split(" ");
      if (word === "begin") {
        this.begins.set(id, (this.begins.get(id) ?? 0) + 1);
        this.pids.set(id, Number(pid));
      }
      if (word === "end") this.ended.add(id);
    }
  }

  /** Reads what the app of a project has written in a data directory up to now. */
  static read(dataDir: string, projectId: string): Ledger {
    const file = path.join(dataDir, "storage", projectId, "ledger");
    return new Ledger(existsSync(file) ? readFileSync(file, "utf8") : "");
  }

  /** Runs that were executed more than once. */
  get repeated(): number {
    return [...this.begins.values()].filter((count) => count > 1).length;
  }
}
