import type { AppPython } from "../../host/app-python.ts";
import type { Exit, InitFailure } from "../engine.ts";
import type { StartedProcess } from "../local/spawn.ts";

/** A process that starts as soon as its interpreter is found. If there is none, it ends with that as the reason. */
export function startLater(
  found: Promise<AppPython | InitFailure>,
  start: (python: AppPython) => StartedProcess,
): StartedProcess {
  let begun: StartedProcess | null = null;
  let isKilled = false;
  const exited = found.then(async (python): Promise<Exit> => {
    if (isKilled) return { detail: "stopped before it started", initFailure: null };
    if (!("program" in python)) return { detail: python.message, initFailure: python };
    begun = start(python);
    return await begun.exited;
  });
  return {
    exited,
    kill: () => {
      isKilled = true;
      begun?.kill();
    },
    vitals: (pid) => begun?.vitals(pid) ?? null,
    usage: async (pid) => (await begun?.usage(pid)) ?? null,
    judge: (exit) => begun?.judge?.(exit) ?? exit,
    holdFork: (ticket) => begun?.holdFork?.(ticket) ?? null,
    explain: async (exit) => (await begun?.explain?.(exit)) ?? exit,
    residentBytes: async () => (await begun?.residentBytes()) ?? 0,
  };
}
