import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";

/** What a Python does without in these tests. */
const LEFT_OUT = new Set(["__pycache__", "test", "tests", "idlelib", "site-packages", "tkinter", "lib2to3"]);

/**
 * An interpreter in another place, as the builds that uv fetches: it finds its library by where it is. `base` is its
 * program, which is no link; `prefix` the folder to be made. Its standard library is copied if it `isWhole`, and
 * otherwise a link to that of `base`.
 */
export function copyPython(base: string, prefix: string, isWhole: boolean): string {
  const name = path.basename(base);
  const lib = path.join(path.dirname(path.dirname(base)), "lib");
  mkdirSync(path.join(prefix, "bin"), { recursive: true });
  mkdirSync(path.join(prefix, "lib"));
  const program = path.join(prefix, "bin", name);
  writeFileSync(program, relocated(readFileSync(base), lib));
  chmodSync(program, 0o755);
  for (const other of ["python", "python3"]) symlinkSync(name, path.join(prefix, "bin", other));
  const shared = path.join(lib, `lib${name}.so.1.0`);
  if (existsSync(shared)) cpSync(shared, path.join(prefix, "lib", path.basename(shared)));
  const [from, to] = [path.join(lib, name), path.join(prefix, "lib", name)];
  const filter = (file: string): boolean => !/config-/.test(file) && !LEFT_OUT.has(path.basename(file));
  if (isWhole) cpSync(from, to, { recursive: true, verbatimSymlinks: true, filter });
  else symlinkSync(from, to);
  return program;
}

/** A program that looks for its shared library beside itself, and no longer where it was built for. */
function relocated(program: Buffer, lib: string): Buffer {
  const told = Buffer.from(`${lib}\0`);
  const at = program.indexOf(told);
  if (at === -1) return program;
  const beside = "$ORIGIN/../lib";
  if (beside.length > lib.length) throw new Error(`${lib} is shorter than ${beside}`);
  return Buffer.concat([
    program.subarray(0, at),
    Buffer.from(beside.padEnd(told.length, "\0")),
    program.subarray(at + told.length),
  ]);
}
