import { ANY_FUNCTION, BATCHING_KEYS } from "./keys/batching.ts";
import { CUSTOM_RUNTIME_KEYS, DEPENDENCY_KINDS, DEPENDENCY_PATH_KEYS } from "./keys/build.ts";
import { DEPLOYMENT_KEYS } from "./keys/deployment.ts";
import { HARDWARE_KEYS } from "./keys/hardware.ts";
import type { AppKey } from "./readers.ts";
import { LIMITS_KEYS } from "./keys/limits.ts";
import { BATCHES_KEYS, QUEUE_KEYS } from "./keys/queue.ts";
import { RETRY_KEYS } from "./keys/retry.ts";
import { SCALING_KEYS } from "./keys/scaling.ts";
import { SCHEDULE_KEYS } from "./keys/schedules.ts";
import { nearest, type Problems } from "./problems.ts";
import { isTable, parseToml, type RawTable } from "./toml.ts";

/** Runtimes of the hosted original that belong to its partners. */
export const PARTNERS = ["deepgram", "rime"] as const;

/** The partner that has a runtime, if any. */
export function partnerOf(runtime: unknown): (typeof PARTNERS)[number] | undefined {
  return PARTNERS.find((name) => name === runtime);
}

/** Why a partner's runtime is not served, and what to do; `name` is what asked for it. */
export function partnerRefusal(name: string): string {
  return (
    `${name} asks for a partner service of the hosted platform, which only that platform may run: ` +
    "remove it, and call the partner's own API from a function in main.py"
  );
}

/** Every key of the app's configuration, in the order of the documentation. */
export const APP_KEYS: readonly AppKey<unknown>[] = [
  DEPLOYMENT_KEYS,
  HARDWARE_KEYS,
  SCALING_KEYS,
  LIMITS_KEYS,
  BATCHING_KEYS,
  BATCHES_KEYS,
  RETRY_KEYS,
  QUEUE_KEYS,
  SCHEDULE_KEYS,
  DEPENDENCY_PATH_KEYS,
  CUSTOM_RUNTIME_KEYS,
].flatMap((keys) => Object.values<AppKey<unknown>>(keys));

/** The one key that is also taken outside its table. */
const TOP_LEVEL_KEY = "response_grace_period";
/** The table that holds all others in the `cerebrium.toml` form. */
const ROOT_TABLE = "cerebrium";

/** A table with known members, or `value` for a key, or `open` for a table whose members have any name. */
type Shape = "value" | "open" | Map<string, Shape>;

/** The one list of tables. */
const SCHEDULES = "schedules";

const SHAPE = shapeOf(APP_KEYS.map(({ path }) => path));

/** Reports values that should be tables, and warns of unknown keys. */
function checkTable(
  table: RawTable,
  shape: Map<string, Shape>,
  path: string,
  prefix: string,
  problems: Problems,
): void {
  for (const [key, value] of Object.entries(table)) {
    const known = shape.get(key) ?? shape.get(ANY_FUNCTION);
    const name = `${prefix}${path}${key}`;
    if (known === undefined) problems.unknown(name, () => suggestion([...shape.keys()], key, prefix, path));
    else if (known === "value") continue;
    else if (path === "" && key === SCHEDULES && Array.isArray(value) && known !== "open")
      value.forEach((item: unknown, i) => {
        const at = `${name}[${i}]`;
        if (isTable(item)) checkTable(item, known, "", `${at}.`, problems);
        else problems.misfit(at, "a table", item);
      });
    else if (path === "" && key === SCHEDULES)
      problems.misfit(name, "a list of tables, [[schedules]]", value);
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
  const add = (path: string, kind: "value" | "open"): void => {
    const names = path.split(".");
    const last = names.pop() ?? "";
    let table = shape;
    for (const name of names) {
      let next = table.get(name);
      if (!(next instanceof Map)) table.set(name, (next = new Map<string, Shape>()));
      table = next;
    }
    table.set(last, kind);
  };
  for (const path of paths) add(path, "value");
  for (const kind of DEPENDENCY_KINDS) add(`dependencies.${kind}`, "open");
  for (const table of ["experimental", ...PARTNERS.map((name) => `runtime.${name}`)]) add(table, "open");
  return shape;
}

/** A raw value and the name it goes by where it was given. */
type Given = { readonly name: string; readonly raw: unknown };

/** One place that may give values; where it gives none, the next weaker one is asked. */
export type Layer = (key: Pick<AppKey<unknown>, "path" | "payload">) => Given | undefined;

/** The members of a deploy payload. Unknown members are ignored: clients send more than configuration. */
export function payloadLayer(payload: RawTable): Layer {
  return ({ payload: member }) => {
    if (member === undefined || !Object.hasOwn(payload, member)) return undefined;
    const raw = payload[member];
    return raw === null || raw === undefined ? undefined : { name: member, raw };
  };
}

/** The text of a configuration file in either form; null when it cannot be used. */
export function tomlLayer(text: string, fileName: string, problems: Problems): Layer | null {
  const file = parseToml(text, fileName, problems);
  if (file === null) return null;
  const root = file[ROOT_TABLE];
  const prefix = root === undefined ? "" : `${ROOT_TABLE}.`;
  const tables = root === undefined ? file : isTable(root) ? root : {};
  if (root !== undefined) {
    for (const key of Object.keys(file))
      if (key !== ROOT_TABLE && key !== TOP_LEVEL_KEY)
        problems.unknown(key, () => suggestion([], key, prefix));
    if (!isTable(root)) problems.misfit(ROOT_TABLE, "a table", root);
  }
  checkTable(tables, SHAPE, "", prefix, problems);
  const grace = gracePeriods(file, tables, prefix);
  if (grace.length > 1) {
    const [used, ...others] = grace.map(({ name }) => name);
    problems.warn(`${used} is used; ${others.join(" and ")} ${others.length === 1 ? "is" : "are"} ignored`);
  }
  return ({ path }) => {
    if (path === GRACE_PATH) return grace[0];
    const raw = lookUp(tables, path);
    return raw === undefined ? undefined : { name: prefix + path, raw };
  };
}

/** The strongest layer's value. */
export function findIn(layers: readonly Layer[], key: Parameters<Layer>[0]): Given | undefined {
  return layers.map((layer) => layer(key)).find((given) => given !== undefined);
}

const GRACE_PATH = `scaling.${TOP_LEVEL_KEY}`;

/** The grace periods in the file, the one that counts first. */
function gracePeriods(file: RawTable, tables: RawTable, prefix: string): Given[] {
  return [
    { name: prefix + GRACE_PATH, raw: lookUp(tables, GRACE_PATH) },
    { name: prefix + TOP_LEVEL_KEY, raw: tables[TOP_LEVEL_KEY] },
    { name: TOP_LEVEL_KEY, raw: prefix === "" ? undefined : file[TOP_LEVEL_KEY] },
  ].filter(({ raw }) => raw !== undefined);
}

function lookUp(table: RawTable, path: string): unknown {
  let value: unknown = table;
  for (const name of path.split(".")) {
    if (!isTable(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}
