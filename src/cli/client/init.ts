import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { APP_NAME } from "../../model/names.ts";
import { CliFailure, usage } from "../failure.ts";
import { type Definitions, examples } from "../options.ts";
import { Output } from "../output.ts";
import { programName, shellWord } from "../program-name.ts";
import { asAppName, badName } from "./app-folder.ts";

type InitFlags = { readonly name?: string; readonly json?: boolean };

export const COMMANDS: Definitions = {
  init(command) {
    command
      .argument("[folder]", "the folder, created if needed (default: the current one)")
      .option("--name <name>", "the app's name (default: the folder's name)")
      .option("--json", "print one JSON document");
    examples(command, "millrace init hi").action(init);
  },
};

function init(folder: string | undefined, flags: InitFlags): void {
  const target = path.resolve(folder ?? ".");
  const name = flags.name ?? asAppName(path.basename(target));
  if (!APP_NAME.test(name)) throw badName(name);
  const files = contents(name, folder ?? ".");
  const names = Object.keys(files);
  const taken = entriesOf(target).filter((entry) => names.includes(entry));
  if (taken.length > 0) {
    throw new CliFailure(`${target} already has ${taken.join(" and ")}; nothing was written`, {
      hint: "choose another folder",
    });
  }
  mkdirSync(target, { recursive: true });
  // `wx`: never over a file that was created meanwhile.
  for (const [file, text] of Object.entries(files))
    writeFileSync(path.join(target, file), text, { flag: "wx" });
  const shown = folder ?? ".";
  new Output(flags).show({ folder: target, name, files: names }, () =>
    [
      `${name} is in ${shown}: ${names.join(", ")}`,
      "",
      `  ${programName()} dev ${shellWord(shown)}       serve it locally, and reload it on every save`,
      `  ${programName()} deploy ${shellWord(shown)}    deploy it to a service`,
      "",
    ].join("\n"),
  );
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return [];
    throw usage(code === "ENOTDIR" ? `${folder} is not a folder` : `${folder} cannot be read: ${code}`);
  }
}

function contents(name: string, shown: string): Record<string, string> {
  return {
    "main.py": `"""Every function here can be called; a function that yields streams. Code at this level runs once per replica."""
import time


def run(name: str = "world"):
    """Greets somebody."""
    return {"message": f"Hello, {name}!"}


def count(upto: int = 3):
    """Yields one number after the other."""
    for number in range(1, upto + 1):
        yield f"Number {number}"
        time.sleep(0.2)
`,
    "millrace.toml": `[deployment]
name = "${name}"

[scaling]
min_replicas = 0
max_replicas = 2
response_grace_period = "15m"

# [dependencies.pip]
# numpy = "latest"
`,
    "README.md": `# ${name}

\`\`\`sh
millrace dev ${shown}
millrace deploy ${shown}
millrace call ${name} name=Ada
millrace call ${name} count upto=5
millrace call ${name} --async --wait name=Ada
millrace logs ${name} --follow
\`\`\`
`,
  };
}
