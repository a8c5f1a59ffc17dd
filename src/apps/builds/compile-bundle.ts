import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { appEnvironment } from "../../host/app-environment.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import { BuildError, type BuildSite, severalProblems } from "./site.ts";
import { PYTHON_SYNC } from "./make-environment.ts";
import { runStep } from "./run-step.ts";

/** Prints a mistake as one line, short enough not to be cut. */
const TELL = `import json
def tell(file, kind, error):
    line, text = getattr(error, "lineno", None), getattr(error, "text", None)
    message = "%s: %s" % (kind, getattr(error, "msg", None) or error)
    told = {"file": file[:500], "line": line, "text": text and text[:200], "message": message[:500]}
    print(json.dumps(told), flush=True)
`;

/** Parses the bundle's own Python files and writes nothing. Packages in the bundle are not the author's to mend. */
const PARSE = `${TELL}
import ast, os, warnings
warnings.simplefilter("ignore")
OTHERS = {"__pycache__", "node_modules", "site-packages", "dist-packages"}
for folder, folders, files in os.walk("."):
    if "pyvenv.cfg" in files:
        folders[:] = []
        continue
    folders[:] = sorted(name for name in folders if name not in OTHERS and not name.startswith("."))
    for name in sorted(files):
        if not name.endswith(".py"):
            continue
        file = os.path.normpath(os.path.join(folder, name))
        try:
            with open(file, "rb") as source:
                ast.parse(source.read(), file)
        except (OSError, RecursionError, MemoryError):
            pass
        except (SyntaxError, ValueError) as error:
            tell(file, type(error).__name__, error)
print("done")`;

/** One process for all files: starting Python takes as long as compiling 100. Prints mistakes as lines, then `done`. */
const COMPILE = `${TELL}
${PYTHON_SYNC}
import os, py_compile, sys
for folder, folders, files in os.walk("."):
    folders[:] = [name for name in folders if name != "__pycache__"]
    for name in files:
        if not name.endswith(".py"):
            continue
        file = os.path.normpath(os.path.join(folder, name))
        try:
            py_compile.compile(file, doraise=True)
        except py_compile.PyCompileError as error:
            tell(file, error.exc_type_name, error.exc_value)
        except OSError:
            pass
if sys.argv[1:] == ["sync"]:
    sync(".")
print("done")`;
/** More are not even counted. */
const MAX_MISTAKES = 10_000;
/** Files with mistakes that are named before the rest is counted. */
const MAX_NAMED = 20;

const MISTAKE = z.object({
  file: z.string(),
  line: z.nullable(z.number()),
  text: z.nullable(z.string()),
  message: z.string(),
});
type Mistake = z.infer<typeof MISTAKE>;

const ADVICE = "Fix it or exclude the file, or deploy with --disable-syntax-check";

/** Before the image is built its Python is not known: the error says which one has read the files. */
export async function checkSyntaxForImage({ path, version }: Interpreter, site: BuildSite): Promise<void> {
  await checkSyntax(path, site, `, as Python ${version} reads it (the image may have another)`);
}

/** If the deploy asks for it, throws a `BuildError` with the files that this Python cannot parse. */
export async function checkSyntax(python: string, site: BuildSite, reader = ""): Promise<void> {
  if (!site.checksSyntax) return;
  const mistakes = (await told(python, [PARSE], site)) ?? [];
  const problems = mistakes.map((mistake) => `${describe(mistake)}${reader}`);
  if (problems.length > 0) throw severalProblems(problems, site, ADVICE);
}

/** Compiles the bundle. A mistake in a needed `main.py` is a `BuildError`, in other files, perhaps unused, a warning. */
export async function compileBundle(
  python: string,
  wasChanged: boolean,
  needsMain: boolean,
  site: BuildSite,
): Promise<void> {
  const mistakes = await told(python, [COMPILE, ...(wasChanged ? ["sync"] : [])], site);
  // The parser may crash on some file: the first replica shows whether that matters.
  if (mistakes === null) return site.say("warning: could not precompile the bundle", "stderr");
  const isMain = ({ file }: Mistake): boolean => needsMain && file === "main.py";
  const others = mistakes.filter((mistake) => !isMain(mistake));
  for (const mistake of others.slice(0, MAX_NAMED)) site.say(`warning: ${describe(mistake)}`, "stderr");
  if (others.length > MAX_NAMED) site.say(`warning: … and ${others.length - MAX_NAMED} more files`, "stderr");
  const own = mistakes.find(isMain);
  if (own) throw new BuildError(describe(own));
}

/** Throws a `BuildError` where there is none. */
export function requireMain(bundleDir: string): void {
  if (!existsSync(join(bundleDir, "main.py")))
    throw new BuildError("there is no main.py at the root of the bundle");
}

/** The mistakes that a program reports; null if it did not finish. */
async function told(python: string, program: readonly string[], site: BuildSite) {
  const lines: string[] = [];
  const onLine: BuildSite["say"] = (text, stream) => {
    if (stream === "stdout" && lines.length <= MAX_MISTAKES) lines.push(text);
  };
  const args = ["-I", "-S", "-W", "ignore", "-c", ...program];
  await runStep({ program: python, args, env: site.seat ? {} : appEnvironment(site.host, {}), onLine }, site);
  if (lines.at(-1) !== "done" && lines.length <= MAX_MISTAKES) return null;
  try {
    return lines.slice(0, -1).map((line) => MISTAKE.parse(JSON.parse(line)));
  } catch {
    // In a remote seat the app's own image may have printed something else.
    return null;
  }
}

function describe({ file, line, text, message }: Mistake): string {
  const where = line === null ? file : `${file}, line ${line}`;
  const shown = text?.trim().slice(0, 200);
  return `${where}: ${message}${shown ? `: ${shown}` : ""}`;
}
