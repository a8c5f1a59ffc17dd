import { readFileSync, readdirSync } from "node:fs";

/** The processes of a pod on this machine. */
export function processesOf(podName: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => hostNameOf(pid) === podName);
}

/** The agent of a pod on this machine: the first of its processes. */
export function agentOf(podName: string): number {
  const [first] = processesOf(podName).toSorted((one, other) => one - other);
  if (first === undefined) throw new Error(`no process of ${podName} is on this machine`);
  return first;
}

/** What a process was told that its machine is called. */
function hostNameOf(pid: number): string | undefined {
  try {
    return /(?:^|\0)HOSTNAME=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, "latin1"))?.[1];
  } catch {
    return undefined;
  }
}
