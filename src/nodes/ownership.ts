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
  readonly #dataDir: string;

  readonly #bootId: string | null;

  /** Requires the lock of the directory. */
  constructor(dataDir: string, bootId: string | null = readBootId()) {
    this.#dataDir = dataDir;
    this.#bootId = bootId;
    this.predecessors = readKept(dataDir, bootId).slice(-MAX_KEPT);
    this.#keep([...this.predecessors, this.owner]);
  }

  /** Forgets the predecessors, whose runs and apps have been taken over. */
  settle(): void {
    this.#keep([this.owner]);
  }

  #keep(owners: readonly string[]): void {
    const file = fileIn(this.#dataDir);
    writeFileSync(`${file}.new`, JSON.stringify({ place: placeOf(this.#dataDir, this.#bootId), owners }), {
      mode: 0o600,
    });
    renameSync(`${file}.new`, file);
  }
}

function readKept(dataDir: string, bootId: string | null): readonly string[] {
  try {
    const { place, owners } = JSON.parse(readFileSync(fileIn(dataDir), "utf8")) as Kept;
    // A copy of the directory does not identify the service that runs on the original.
    return bootId !== null && place === placeOf(dataDir, bootId)
      ? owners.filter((owner) => OWNER_ID.test(owner))
      : [];
  } catch {
    return []; // The first start here, or a file that was cut off: leases tell, a little later.
  }
}

/**
 * A cloned disk has the same device and inode numbers, so the kernel's boot id is included. After a reboot, leases
 * decide.
 */
function placeOf(dataDir: string, bootId: string | null): string {
  const { dev, ino } = statSync(dataDir);
  return `${bootId}:${dev}:${ino}`;
}

function readBootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}

function fileIn(dataDir: string): string {
  return path.join(dataDir, "owners.json");
}
