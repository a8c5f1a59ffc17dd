import { readFileSync, readdirSync } from "node:fs";

type Process = { readonly pid: number; readonly command: string; readonly environment: string };

/** The processes of this machine; what separates the words of a command is a zero. */
export function processes(): Process[] {
  return readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    const read = (file: string): string => readFileSync(`/proc/${pid}/${file}`, "utf8");
    try {
      return { pid, command: read("cmdline"), environment: read("environ") };
    } catch {
      return [];
    }
  });
}
