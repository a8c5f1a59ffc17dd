import { dirname } from "node:path";
import { AppError } from "../../model/errors.ts";

/** Why the database accepts nothing new: for callers, without a path; and for the operator, with file, cause and remedy. */
export type StorageFault = { readonly message: string; readonly detail: string };

/** The file of a database that the service itself manages. */
export type DatabaseFile = {
  /** Its known fault, if any. */
  readonly fault: StorageFault | null;
  bytes(): Promise<number>;
  /** Checks whether it is still the file at its path. */
  look(): Promise<void>;
  /**
   * Reads the whole file and records the first damage. In steps, one for each table, it delays a stop or the log only
   * for one step, but does not check free pages.
   */
  check(inSteps: boolean): Promise<void>;
};

const DAMAGED =
  "The service's database is damaged, so nothing new is accepted. Its operator has to stop the service and restore a backup with `millrace restore`.";
const LOST =
  "The service's database was removed, replaced or unmounted, so nothing new is accepted. Its operator has to put the data directory back, or stop the service and restore a backup with `millrace restore`.";

/** SQLite has found its file damaged: retrying will not help. */
export class DamagedStorage extends AppError {
  /** SQLite's message. */
  readonly problem: string;

  constructor(problem: string) {
    super("storage_unavailable", { message: DAMAGED }, new Error(problem));
    this.problem = problem;
  }
}

/** Refuses a write if the file is no longer at its path: the write would be lost when the process ends. */
export function lostStorage(): AppError {
  return new AppError("storage_unavailable", { message: LOST });
}

/** The fault of a database file that SQLite found damaged. */
export function damageFault(path: string, problem: string): StorageFault {
  const detail = `${path} is damaged: ${problem}. ${restoring(path)}`;
  return { message: DAMAGED, detail };
}

/** The fault of a database file that is no longer at its path. */
export function lossFault(path: string): StorageFault {
  const detail = `${path}, or its -wal beside it, was removed, replaced or unmounted while the service ran. If you can put the same files back, the service goes on by itself. ${restoring(path)}`;
  return { message: LOST, detail };
}

/** How to get back to a sound database. */
export function restoring(path: string): string {
  const folder = dirname(path);
  return `To restore a backup: stop the service, move ${folder} away, run "millrace restore FILE --data-dir ${folder}", and start the service.`;
}
