import { execFileSync } from "node:child_process";
import { REPOSITORY } from "./source-files.ts";

/** A JSON Schema as it came. */
export type Schema = Record<string, unknown>;
type ToldParameter = {
  readonly name: string;
  readonly kind: string;
  readonly annotation: string | null;
  readonly schema: Schema;
};
/** What the harness says of a function. */
export type Told = {
  readonly name: string;
  readonly parameters: readonly ToldParameter[];
  readonly returns: Schema;
  readonly streams: boolean;
  readonly batch?: string;
};

/** Reads the text of a main.py and says what the harness would say of its functions. */
const SCRIPT = `
import json, sys, types
from millrace_worker.bind import find_entries
from millrace_worker.signature import SignatureReader
main = types.ModuleType("main")
sys.modules["main"] = main
exec(compile(sys.stdin.read(), "main.py", "exec"), vars(main))
reader = SignatureReader()
entries = find_entries(main, False)
for name in sys.argv[1:]:
    entries[name].take_lists(None, None, "split")
json.dump([reader.read(entry) for entry in entries.values()], sys.stdout, allow_nan=False)
`;

/** What the harness says of the functions of a main.py with this text, by name; `batched` ones take lists. */
export function read(python: string, main: string, batched: readonly string[] = []): Map<string, Told> {
  const told = execFileSync(python, ["-c", SCRIPT, ...batched], {
    cwd: `${REPOSITORY}/python`,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" },
    input: main,
    encoding: "utf8",
    maxBuffer: 16 * 1024 * 1024,
  });
  return new Map((JSON.parse(told) as Told[]).map((each) => [each.name, each]));
}

/** The schema of a function's first parameter. */
export function schemaOf(told: Map<string, Told>, name: string): Schema | undefined {
  return told.get(name)?.parameters[0]?.schema;
}
