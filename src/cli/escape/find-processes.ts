import { readlinkSync } from "node:fs";
import { below, readStat } from "../../host/processes.ts";
import { CliFailure } from "../failure.ts";

/** The replica that works in a bundle: of those below the service, the one that nobody is below. */
export function replicaIn(bundle: string, service: number): number {
  const isThere = (pid: number): boolean => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === bundle;
    } catch {
      return false;
    }
  };
  const found = below(service).living.findLast((pid) => isThere(pid));
  if (found === undefined) throw new CliFailure(`no process below ${service} works in ${bundle}`);
  return found;
}

/** Of those above a process, the one that the service itself has started: its outer keeper, if it has walls. */
export function outermost(pid: number, service: number): number {
  const { parent } = readStat(`${pid}`, "/proc");
  return parent === service ? pid : outermost(parent, service);
}
