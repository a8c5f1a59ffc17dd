import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { PositionEncoding, Workspace } from "@astral-sh/ruff-wasm-nodejs";
import { parse } from "smol-toml";

// Python's format, lint and types, by tools that npm installs: ruff as WebAssembly, and pyright. `--fix` formats.
// It takes 6 s of processor time, so what has passed is not checked again until it changes.

type Diagnostic = {
  readonly code: string | null;
  readonly message: string;
  readonly start_location: { readonly row: number; readonly column: number };
};

const PASSED = "node_modules/.cache/python/passed";
const SETTINGS = ["ruff.toml", "pyrightconfig.json", "package-lock.json", "scripts/check-python.ts"];

process.chdir(path.dirname(import.meta.dirname));
const sources = globSync("{python,examples,bench,test,packaging}/**/*.py").toSorted();

/** Everything that the answer depends on. */
function fingerprint(): string {
  const hash = createHash("sha256");
  for (const file of [...SETTINGS, ...sources]) hash.update(`${file}\0`).update(readFileSync(file));
  return hash.digest("hex");
}

function hasPassed(print: string): boolean {
  try {
    return readFileSync(PASSED, "utf8") === print;
  } catch {
    return false;
  }
}

function lint(isFixing: boolean): string[] {
  const ruff = new Workspace(parse(readFileSync("ruff.toml", "utf8")), PositionEncoding.Utf32);
  return sources.flatMap((file) => {
    const source = readFileSync(file, "utf8");
    const formatted = ruff.format(source);
    if (isFixing && formatted !== source) writeFileSync(file, formatted);
    const faults = (ruff.check(isFixing ? formatted : source) as Diagnostic[]).map(
      ({ code, message, start_location: { row, column } }) =>
        `${file}:${row}:${column} ${code ?? ""} ${message}`,
    );
    if (!isFixing && formatted !== source) faults.push(`${file} is not formatted: npm run fix`);
    return faults;
  });
}

/** What pyright says, or null. It finds no interpreter, and so the same on every machine: no installed package. */
async function checkTypes(): Promise<string | null> {
  const program = fileURLToPath(import.meta.resolve("pyright/index.js"));
  const child = spawn(process.execPath, [program], { env: { PATH: "/nonexistent" } });
  const [said, exitCode] = await Promise.all([
    text(child.stdout),
    new Promise((resolve) => child.on("close", resolve)),
    text(child.stderr),
  ]);
  return exitCode === 0 ? null : said;
}

const isFixing = process.argv.includes("--fix");
const print = fingerprint();
if (isFixing || !hasPassed(print)) {
  const types = isFixing ? null : checkTypes();
  const faults = [...lint(isFixing), ...[await types].filter((said) => said !== null)];
  if (faults.length > 0) {
    console.error(faults.join("\n"));
    process.exitCode = 1;
  } else if (!isFixing) {
    mkdirSync(path.dirname(PASSED), { recursive: true });
    writeFileSync(PASSED, print);
  }
}
