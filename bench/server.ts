import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startChild } from "./processes.ts";
import { makeScratchDir } from "./scratch.ts";
import type { Running, Subject } from "./subject.ts";
import { FASTAPI_PYTHON, prepareFastapi } from "./subjects/fastapi.ts";
import { startMillrace } from "./subjects/millrace.ts";
import type { SubjectResult } from "./sync.ts";
import { judge, ratio } from "./targets.ts";
import type { Verdict } from "./targets.ts";

const FASTAPI_APP = join(import.meta.dirname, "subjects/fastapi_app.py");
const EXPECTS = '"hello ada"';

/** The same FastAPI app three times: behind Millrace, behind a bare pass-through, and alone. */
export const SERVER_SUBJECTS: readonly Subject[] = [
  {
    id: "fastapi",
    name: "FastAPI alone",
    expects: EXPECTS,
    start: async () => (await prepareFastapi()).start("run"),
  },
  { id: "passthrough", name: "bare pass-through", expects: EXPECTS, start: startPassThrough },
  { id: "millrace", name: "Millrace", expects: EXPECTS, start: startServerApp },
];

/** What `npm run bench server` is for. */
export function judgeServer(results: readonly SubjectResult[]): Verdict[] {
  const find = (id: SubjectResult["id"]) => results.find((result) => result.id === id);
  const [millrace, floor] = [find("millrace"), find("passthrough")];
  return [
    judge({
      what: "Millrace / pass-through, calls/s at 32 connections",
      bound: "at least",
      target: 0.75,
      unit: "ratio",
      ...ratio(millrace, floor, 32, (round) => round.callsPerSecond),
    }),
    judge({
      what: "Millrace / pass-through, p50 at 1 connection",
      bound: "at most",
      target: 1.3,
      unit: "ratio",
      ...ratio(millrace, floor, 1, (round) => round.p50Us),
    }),
  ];
}

async function startPassThrough(): Promise<Running> {
  const { note } = await prepareFastapi();
  const script = join(import.meta.dirname, "floor/pass-through.ts");
  const child = startChild(process.execPath, [script, FASTAPI_PYTHON, FASTAPI_APP]);
  const { url } = JSON.parse(await child.nextLine()) as { url: string };
  return { url: `${url}/run`, headers: {}, note, pid: child.pid, stop: child.stop };
}

/** The app as a server app would have it, on the bench's own packages. */
async function startServerApp(): Promise<Running> {
  await prepareFastapi();
  const scratch = makeScratchDir();
  const folder = join(scratch, "server");
  mkdirSync(folder);
  copyFileSync(FASTAPI_APP, join(folder, "main.py"));
  const command = [FASTAPI_PYTHON, "-m", "uvicorn", "main:app", "--port", "8000", "--no-access-log"];
  writeFileSync(
    join(folder, "millrace.toml"),
    `[deployment]\nname = "server"\n[runtime.custom]\nentrypoint = ${JSON.stringify(command)}\n[scaling]\nmin_replicas = 1\nmax_replicas = 1\nreplica_concurrency = 64\n`,
  );
  // Its packages are the bench's own, which lie outside of all walls; those are measured by themselves.
  const service = await startMillrace(join(scratch, "data"), [folder], { isolation: "none" });
  const { headers, pid, stop } = service;
  return { url: service.callUrl("server"), headers, pid, stop };
}
