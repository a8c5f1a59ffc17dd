import { join } from "node:path";
import { startChild } from "./processes.ts";
import { makeScratchDir } from "./scratch.ts";
import type { Running, Subject } from "./subject.ts";
import { startFastapi } from "./subjects/fastapi.ts";
import { startMillrace } from "./subjects/millrace.ts";

/** All that is compared, in the order of the tables. */
export const SUBJECTS: readonly Subject[] = [
  { id: "echo", name: "node:http echo", expects: '"name":"ada"', start: () => startScript("floor/echo.ts") },
  { id: "floor", name: "the floor", expects: '"hello ada"', start: () => startScript("floor/gateway.ts") },
  {
    id: "millrace",
    name: "Millrace",
    expects: '"hello ada"',
    start: async () => {
      const service = await startMillrace(makeScratchDir(), ["hello"]);
      const { headers, pid, stop } = service;
      return { url: service.callUrl("hello"), headers, pid, stop };
    },
  },
  { id: "fastapi", name: "FastAPI + uvicorn", expects: '"hello ada"', start: () => startFastapi() },
];

/** Starts one of the bench's own servers, which announces its address when it is ready. */
export async function startScript(script: string): Promise<Running> {
  const child = startChild(process.execPath, [join(import.meta.dirname, script)]);
  const { url } = JSON.parse(await child.nextLine()) as { url: string };
  return { url: `${url}/run`, headers: {}, pid: child.pid, stop: child.stop };
}
