import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { askMemory, startChild, withOpenFiles } from "./processes.ts";
import { makeScratchDir } from "./scratch.ts";
import { CALL_BODY, type Running } from "./subject.ts";
import { FASTAPI_PYTHON, prepareFastapi } from "./subjects/fastapi.ts";
import { startMillrace } from "./subjects/millrace.ts";

const FASTAPI_APP = join(import.meta.dirname, "subjects/fastapi_app.py");

/** The same FastAPI app: alone, behind a bare pass-through, and behind Millrace. */
export const SERVER_SIDES = ["fastapi", "passthrough", "millrace"] as const;
export type ServerSide = (typeof SERVER_SIDES)[number];

export const SIDE_NAMES: Readonly<Record<ServerSide, string>> = {
  fastapi: "FastAPI alone",
  passthrough: "bare pass-through",
  millrace: "Millrace",
};

/** One of them that is up. `pid`: the process that callers talk to, be it the app or what stands before it. */
export type ServerRunning = Running & {
  /** What that process holds after a collection; null where it has none. */
  readonly memory: (() => Promise<NodeJS.MemoryUsage>) | null;
};

/** How many replicas stand behind Millrace, and how many calls each takes. */
export type ServerSize = { readonly replicas: number; readonly concurrency: number };

const USUAL: ServerSize = { replicas: 1, concurrency: 64 };

/** Starts one of them, to be called at that path. */
export async function startSide(
  side: ServerSide,
  path: string,
  size: ServerSize = USUAL,
): Promise<ServerRunning> {
  switch (side) {
    case "fastapi":
      return { ...(await (await prepareFastapi()).start(path)), memory: null };
    case "passthrough":
      return await startPassThrough(path);
    case "millrace":
      return await startServerApp(path, size);
    default:
      return side satisfies never;
  }
}

async function startPassThrough(path: string): Promise<ServerRunning> {
  const { note } = await prepareFastapi();
  const script = join(import.meta.dirname, "floor/pass-through.ts");
  const args = ["--expose-gc", script, FASTAPI_PYTHON, FASTAPI_APP];
  const child = startChild(...withOpenFiles(process.execPath, args));
  const { url } = JSON.parse(await child.nextLine()) as { url: string };
  const { pid, stop } = child;
  return { url: `${url}/${path}`, headers: {}, note, pid, memory: () => askMemory(child), stop };
}

/** The app as a server app would have it, on the bench's own packages. */
async function startServerApp(path: string, { replicas, concurrency }: ServerSize): Promise<ServerRunning> {
  await prepareFastapi();
  const scratch = makeScratchDir();
  const folder = join(scratch, "server");
  mkdirSync(folder);
  copyFileSync(FASTAPI_APP, join(folder, "main.py"));
  const quiet = ["--no-access-log", "--ws-ping-interval", "3600"];
  const command = [FASTAPI_PYTHON, "-m", "uvicorn", "main:app", "--port", "8000", ...quiet];
  writeFileSync(
    join(folder, "millrace.toml"),
    `[deployment]
name = "server"
[runtime.custom]
entrypoint = ${JSON.stringify(command)}
[scaling]
min_replicas = ${replicas}
max_replicas = ${replicas}
replica_concurrency = ${concurrency}
[limits]
max_body = "256MiB"
`,
  );
  // Its packages are the bench's own, which lie outside of all walls; those are measured by themselves.
  const options = { isolation: "none", mayCollect: true, maxConnections: 10_000 };
  const service = await startMillrace(join(scratch, "data"), [folder], options);
  const { headers, pid, stop, memory } = service;
  // The others are up when they have started; so is this one when its app answers.
  const { status } = await fetch(service.callUrl("server", "run"), {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: CALL_BODY,
  });
  if (status !== 200) throw new Error(`the server app was answered ${status}`);
  return { url: service.callUrl("server", path), headers, pid, memory, stop };
}
