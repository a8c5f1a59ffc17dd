import { access } from "node:fs/promises";
import { join } from "node:path";
import { runTool, startChild } from "../processes.ts";
import { progress } from "../progress.ts";
import { type Running, Skipped } from "../subject.ts";

const VENV = join(import.meta.dirname, "../../.cache/bench-venv");
/** The interpreter of that environment. */
export const FASTAPI_PYTHON = join(VENV, "bin/python");
const INSTALL_LIMIT_MS = 180_000;
const VERSIONS = `
import fastapi, uvicorn, uvloop, httptools
print(f"FastAPI {fastapi.__version__}, uvicorn {uvicorn.__version__}, uvloop {uvloop.__version__}")
`;

/** Starts FastAPI on uvicorn in a virtual environment of the bench, made at the first use. */
export async function startFastapi(route = "run"): Promise<Running> {
  return await (await prepareFastapi()).start(route);
}

/** What has to be there before it is started; then only the start itself takes time. */
export async function prepareFastapi(): Promise<{
  readonly note: string;
  readonly start: (route: string) => Promise<Running>;
}> {
  const note = await installedVersions();
  return {
    note,
    start: async (route) => {
      const child = startChild(FASTAPI_PYTHON, [join(import.meta.dirname, "fastapi_app.py")]);
      const { url } = JSON.parse(await child.nextLine()) as { url: string };
      return { url: `${url}/${route}`, headers: {}, note, pid: child.pid, stop: child.stop };
    },
  };
}

async function installedVersions(): Promise<string> {
  try {
    await access(FASTAPI_PYTHON);
    return await runTool(FASTAPI_PYTHON, ["-c", VERSIONS]);
  } catch {
    // Absent or half made: made again below.
  }
  try {
    progress("FastAPI: making a virtual environment in .cache/bench-venv (once)");
    await runTool("python3", ["-m", "venv", "--clear", VENV], { limitMs: INSTALL_LIMIT_MS });
    const pip = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"];
    await runTool(FASTAPI_PYTHON, [...pip, "--retries", "1", "fastapi", "uvicorn[standard]"], {
      limitMs: INSTALL_LIMIT_MS,
    });
    return await runTool(FASTAPI_PYTHON, ["-c", VERSIONS]);
  } catch (error) {
    throw new Skipped(`its packages cannot be installed here (${(error as Error).message})`, {
      cause: error,
    });
  }
}
