import { readFileSync } from "node:fs";
import { nearestBelow } from "../../host/process-tree.ts";

/** The app decides how many there are. */
const MAX_PROCESSES = 256;

/**
 * What this machine calls the processes of a container, which know themselves by other numbers. Only those below the
 * container's first process are looked at, so that an app cannot name another's.
 */
export class HostPids {
  readonly #known = new Map<number, number>();
  /** The container's first process; 0 while that is not known. */
  first = 0;

  /** 0 where there is none such. */
  of(inside: number): number {
    const known = this.#known.get(inside);
    if (known !== undefined && innermost(known) === inside) return known;
    if (this.first === 0) return 0;
    const found = this.#search(inside);
    if (found === 0) this.#known.delete(inside);
    else this.#known.set(inside, found);
    return found;
  }

  #search(inside: number): number {
    if (innermost(this.first) === inside) return this.first;
    let left = MAX_PROCESSES;
    for (const pid of nearestBelow(this.first)) {
      if (innermost(pid) === inside) return pid;
      if (--left === 0) break;
    }
    return 0;
  }
}

/** What a process is called in the innermost namespace that it is in; null of one that has ended. */
function innermost(pid: number): number | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const names = /^NSpid:\t(.*)$/m.exec(status)?.[1]?.split("\t") ?? [];
    return Number(names.at(-1) ?? 0);
  } catch {
    return null;
  }
}
