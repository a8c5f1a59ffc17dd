import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { appEnvironment } from "../../host/app-environment.ts";
import { BuildError } from "./build-error.ts";
import { PYTHON_SYNC } from "./python-sync.ts";
import type { BuildSite } from "./site.ts";

/** One process for the whole bundle: each start of Python costs as much as compiling a hundred files. */
const COMPILE = `${PYTHON_SYNC}
import json, os, py_compile, sys
problems = []
owner = os.getppid()
for folder, folders, files in os.walk("."):
    folders[:] = [name for name in folders if name != "__pycache__"]
    for name in files:
        if not name.endswith(".py"):
            continue
        if os.getppid() != owner:
            sys.exit("nobody waits for this")
        file = os.path.normpath(os.path.join(folder, name))
        try:
            py_compile.compile(file, doraise=True)
        except py_compile.PyCompileError as error:
            reason = error.exc_value
            line, text = getattr(reason, "lineno", None), getattr(reason, "text", None)
            message = "%s: %s" % (error.exc_type_name, getattr(reason, "msg", None) or reason)
            problems.append({"file": file, "line": line, "text": text, "message": message})
        except OSError:
            pass
if sys.argv[1:] == ["sync"]:
    sync(".")
json.dump(problems, sys.stdout)`;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
/** Files with mistakes that are named before the rest is counted. */
const MAX_NAMED = 20;

type Mistake = {
  readonly file: string;
  readonly line: number | null;
  readonly text: string | null;
  readonly message: string;
};

/**
 * Compiles the bundle's Python files, so that replicas need not. A mistake in `main.py` is a `BuildError` for an app
 * that offers functions; in other files it is a warning, for nobody may ever import them. A bundle that commands changed is on the disk
 * afterwards.
 */
export async function compileBundle(
  python: string,
  wasChanged: boolean,
  needsMain: boolean,
  site: BuildSite,
): Promise<void> {
  if (needsMain && !existsSync(path.join(site.bundleDir, "main.py"))) {
    throw new BuildError("there is no main.py at the root of the bundle");
  }
  const mistakes = await compile(python, wasChanged, site);
  const isMain = ({ file }: Mistake): boolean => needsMain && file === "main.py";
  const others = mistakes.filter((mistake) => !isMain(mistake));
  for (const mistake of others.slice(0, MAX_NAMED)) site.say(`warning: ${describe(mistake)}`, "stderr");
  if (others.length > MAX_NAMED) site.say(`warning: … and ${others.length - MAX_NAMED} more files`, "stderr");
  const own = mistakes.find(isMain);
  if (own) throw new BuildError(describe(own));
}

async function compile(
  python: string,
  wasChanged: boolean,
  { bundleDir, host, say, signal }: BuildSite,
): Promise<readonly Mistake[]> {
  const output = await new Promise<string>((resolve, reject) => {
    const options = { cwd: bundleDir, signal, env: appEnvironment(host, {}), maxBuffer: MAX_OUTPUT_BYTES };
    execFile(
      python,
      ["-I", "-S", "-W", "ignore", "-c", COMPILE, ...(wasChanged ? ["sync"] : [])],
      options,
      (error, stdout) => {
        if (signal.aborted) reject(signal.reason as Error);
        else if (error) resolve("");
        else resolve(stdout);
      },
    );
  });
  // oxlint-disable-next-line no-unsafe-type-assertion
  if (output !== "") return JSON.parse(output) as Mistake[];
  // The parser itself may break on some file: the first replica will tell whether that matters.
  say("warning: could not precompile the bundle", "stderr");
  return [];
}

function describe({ file, line, text, message }: Mistake): string {
  const where = line === null ? file : `${file}, line ${line}`;
  const shown = text?.trim().slice(0, 200);
  return `${where}: ${message}${shown ? `: ${shown}` : ""}`;
}
