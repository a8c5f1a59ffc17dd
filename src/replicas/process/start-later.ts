import type { Exit, InitFailure } from "../engine.ts";
import type { StartedProcess } from "./spawn.ts";

/** A process that is started as soon as its interpreter is found; one that is not found is why it never was. */
export function startLater(
  found: Promise<string | InitFailure>,
  start: (python: string) => StartedProcess,
): StartedProcess {
  let begun: StartedProcess | null = null;
  let isKilled = false;
  const exited = found.then(async (python): Promise<Exit> => {
    if (isKilled) return { detail: "stopped before it started", initFailure: null };
    if (typeof python !== "string") return { detail: python.message, initFailure: python };
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
    residentBytes: () => begun?.residentBytes() ?? 0,
  };
}
