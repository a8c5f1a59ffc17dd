import { randomUUID } from "node:crypto";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";

/** More than a crash loop leaves before one start succeeds. */
const MAX_KEPT = 100;
const OWNER_ID = /^[0-9a-f-]{36}$/;

type Kept = { readonly place: string; readonly owners: readonly string[] };

/**
 * The id of this service, new at each start. The data directory keeps the ids of services that died on it: while this
 * one holds the directory's lock they are certainly dead, so it need not wait for their leases.
 */
export class Ownership {
  readonly owner = randomUUID();
  /** Services that are dead, whatever their leases say. */
  readonly predecessors: readonly string[];
  readonly #file: string;
  readonly #place: string;

  /** Requires the lock of the directory. */
  constructor(dataDir: string, bootId: string | null = readBootId()) {
    this.#file = path.join(dataDir, "owners.json");
    const { dev, ino } = statSync(dataDir);
    // A cloned disk has the same device and inode numbers, but another boot id. After a reboot, leases decide.
    this.#place = `${bootId}:${dev}:${ino}`;
    this.predecessors = bootId === null ? [] : this.#kept().slice(-MAX_KEPT);
    this.#keep([...this.predecessors, this.owner]);
  }

  /** Forgets the predecessors, whose runs and apps have been taken over. */
  settle(): void {
    this.#keep([this.owner]);
  }

  #keep(owners: readonly string[]): void {
    const text = JSON.stringify({ place: this.#place, owners });
    writeFileSync(`${this.#file}.new`, text, { mode: 0o600 });
    renameSync(`${this.#file}.new`, this.#file);
  }

  #kept(): readonly string[] {
    try {
      const { place, owners } = JSON.parse(readFileSync(this.#file, "utf8")) as Kept;
      // A copy of the directory does not identify the service that runs on the original.
      return place === this.#place ? owners.filter((owner) => OWNER_ID.test(owner)) : [];
    } catch {
      return []; // The first start here, or a file that was cut off: leases tell, a little later.
    }
  }
}

function readBootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}
