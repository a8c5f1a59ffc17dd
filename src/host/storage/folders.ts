import { chownSync, mkdirSync, statSync } from "node:fs";
import type { UidRange } from "../../config/service-keys.ts";
import { storageFolder } from "../data-folders.ts";

/** The storage folders of all projects. The owner of a folder is the user that the project's processes run as. */
export class StorageFolders {
  readonly #dataDir: string;
  /** Null where everything belongs to the service's own user. */
  readonly #range: UidRange | null;
  readonly #users: Map<string, number>;

  constructor(dataDir: string, range: UidRange | null = null, users?: ReadonlyMap<string, number>) {
    this.#dataDir = dataDir;
    this.#range = range;
    this.#users = new Map(users);
  }

  /** A project's folder; it is made if it is not there. */
  make(projectId: string): string {
    const folder = storageFolder(projectId, this.#dataDir);
    const isNew = mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined;
    if (this.#range === null || (!isNew && this.#users.has(projectId))) return folder;
    const known = this.#users.get(projectId) ?? (isNew ? null : this.#givenByOther(folder));
    const user = known ?? freeUser(this.#range, this.#users.values());
    chownSync(folder, user, user);
    this.#users.set(projectId, user);
    return folder;
  }

  /** The user to whom another node has given a shared folder; null for none. */
  #givenByOther(folder: string): number | null {
    const { user } = ownerOf(folder);
    const isTheirs = this.#range !== null && user >= this.#range.first && user <= this.#range.last;
    return isTheirs && ![...this.#users.values()].includes(user) ? user : null;
  }

  /** The user of a project's processes and files; null for the service's own. */
  userOf(projectId: string): number | null {
    this.make(projectId);
    return this.#users.get(projectId) ?? null;
  }
}

/** The lowest id that no project has. Throws when there is none. */
export function freeUser({ first, last }: UidRange, taken: Iterable<number>): number {
  const users = new Set(taken);
  for (let user = first; user <= last; user++) if (!users.has(user)) return user;
  throw new Error(
    `every id from ${first} to ${last} belongs to a project: widen MILLRACE_UID_RANGE, without moving its beginning`,
  );
}

/** The owner of a folder, and whether all files in it have been given to that user. */
export function ownerOf(folder: string): { readonly user: number; readonly isSettled: boolean } {
  const { uid, mode } = statSync(folder);
  return { user: uid, isSettled: (mode & UNFINISHED) === 0 };
}

/** The bit of a folder's mode that marks an unfinished change of its owner. */
const UNFINISHED = 0o1000;
