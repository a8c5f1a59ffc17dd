import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import type { KillableService } from "./killable-service.ts";

/** An app that writes every execution into a file, one line at its beginning and one at its end. */
export const LEDGER_APP = `
import os
import time

LEDGER = os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger")

def note(word, run_id):
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(ledger, ("%s %s\\n" % (word, run_id)).encode())
    os.close(ledger)

def run(n, run_id, ms=0, pad=""):
    note("begin", run_id)
    time.sleep(ms / 1000)
    note("end", run_id)
    return 2 * n + 1

def hold(n, run_id, name):
    """Until there is a file of that name; deaf to everything else."""
    note("begin", run_id)
    note("pid-%d" % os.getpid(), run_id)
    while True:
        try:
            while not os.path.exists(os.path.join(os.path.dirname(LEDGER), name)):
                time.sleep(0.005)
            break
        except BaseException:
            pass
    note("end", run_id)
    return 2 * n + 1
`;

/** What `run` of the app returns. */
export function resultOf(n: number): number {
  return 2 * n + 1;
}

/** How often each run began and ended. */
export class Ledger {
  readonly begins = new Map<string, number>();
  readonly ends = new Map<string, number>();
  /** The replica that holds each run of `hold`, the latest if there were several. */
  readonly pids = new Map<string, number>();

  static read({ storageDir }: Pick<KillableService, "storageDir">): Ledger {
    const ledger = new Ledger();
    const file = path.join(storageDir, "ledger");
    if (!existsSync(file)) return ledger;
    for (const line of readFileSync(file, "utf8").trim().split("\n")) {
      const [word, id = ""] = line.split(" ");
      if (word?.startsWith("pid-")) ledger.pids.set(id, Number(word.slice(4)));
      else {
        const counts = word === "begin" ? ledger.begins : ledger.ends;
        counts.set(id, (counts.get(id) ?? 0) + 1);
      }
    }
    return ledger;
  }

  /** How many executions began, of all runs. */
  get beginnings(): number {
    return [...this.begins.values()].reduce((sum, count) => sum + count, 0);
  }

  begun(id: string): number {
    return this.begins.get(id) ?? 0;
  }

  ended(id: string): number {
    return this.ends.get(id) ?? 0;
  }
}
