import { HOSTED_ONLY_TABLES } from "./hosted-only.ts";
import { CUSTOM_RUNTIME_KEYS, DEPENDENCY_KINDS, DEPENDENCY_PATH_KEYS } from "./keys/build.ts";
import { DEPLOYMENT_KEYS } from "./keys/deployment.ts";
import { HARDWARE_KEYS } from "./keys/hardware.ts";
import type { AppKey } from "./keys/key.ts";
import { LIMITS_KEYS } from "./keys/limits.ts";
import { SCALING_KEYS } from "./keys/scaling.ts";
import { nearest } from "./nearest.ts";
import type { Problems } from "./problems.ts";
import { isTable } from "./toml.ts";
import type { RawTable } from "./toml.ts";

/** Every key of the app's configuration, in the order of the documentation. */
export const APP_KEYS: readonly AppKey<unknown>[] = [
  DEPLOYMENT_KEYS,
  HARDWARE_KEYS,
  SCALING_KEYS,
  LIMITS_KEYS,
  DEPENDENCY_PATH_KEYS,
  CUSTOM_RUNTIME_KEYS,
].flatMap((keys) => Object.values<AppKey<unknown>>(keys));

/** The one key that is also taken outside its table. */
export const TOP_LEVEL_KEY = "response_grace_period";
/** The table that holds all others in the `cerebrium.toml` form. */
export const ROOT_TABLE = "cerebrium";

/** A table with known members, or `value` for a key, or `open` for a table whose members have any name. */
type Shape = "value" | "open" | Map<string, Shape>;

const SHAPE = shapeOf(APP_KEYS.map(({ path }) => path));

/** Reports tables that are none and warns of every key that nobody reads. */
export function checkShape(file: RawTable, problems: Problems): void {
  const root = file[ROOT_TABLE];
  if (root === undefined) return checkTable(file, SHAPE, "", "", problems);
  for (const key of Object.keys(file)) {
    if (key === ROOT_TABLE || key === TOP_LEVEL_KEY) continue;
    problems.unknown(key, () => suggestion([], key, `${ROOT_TABLE}.`));
  }
  if (!isTable(root)) return problems.misfit(ROOT_TABLE, "a table", root);
  checkTable(root, SHAPE, "", `${ROOT_TABLE}.`, problems);
}

function checkTable(
  table: RawTable,
  shape: Map<string, Shape>,
  path: string,
  prefix: string,
  problems: Problems,
): void {
  for (const [key, value] of Object.entries(table)) {
    const known = shape.get(key);
    const name = `${prefix}${path}${key}`;
    if (known === undefined) problems.unknown(name, () => suggestion([...shape.keys()], key, prefix, path));
    else if (known === "value") continue;
    else if (!isTable(value)) problems.misfit(name, "a table", value);
    else if (known !== "open") checkTable(value, known, `${path}${key}.`, prefix, problems);
  }
}

/** The nearest name beside the unknown one, else the same name in another table. */
function suggestion(beside: readonly string[], key: string, prefix: string, path = ""): string | null {
  const sibling = nearest(key, beside);
  if (sibling !== null) return `${prefix}${path}${sibling}`;
  const last = (known: string): string => known.slice(known.lastIndexOf(".") + 1);
  const tables = [...SHAPE.keys()];
  const all = [...tables, ...APP_KEYS.map((known) => known.path)];
  const meant = nearest(key, all.map(last));
  const full = all.find((known) => last(known) === meant);
  return full === undefined ? null : prefix + full;
}

function shapeOf(paths: readonly string[]): Map<string, Shape> {
  const shape = new Map<string, Shape>([[TOP_LEVEL_KEY, "value"]]);
  for (const path of paths) {
    const names = path.split(".");
    const key = names.pop() ?? "";
    tableIn(shape, names).set(key, "value");
  }
  const open = [...DEPENDENCY_KINDS.map((kind) => `dependencies.${kind}`), ...HOSTED_ONLY_TABLES];
  for (const path of open) {
    const names = path.split(".");
    const table = names.pop() ?? "";
    tableIn(shape, names).set(table, "open");
  }
  return shape;
}

function tableIn(shape: Map<string, Shape>, names: readonly string[]): Map<string, Shape> {
  let table = shape;
  for (const name of names) {
    let next = table.get(name);
    if (!(next instanceof Map)) table.set(name, (next = new Map<string, Shape>()));
    table = next;
  }
  return table;
}
