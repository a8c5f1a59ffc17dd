import { checkShape, ROOT_TABLE, TOP_LEVEL_KEY } from "./app-shape.ts";
import type { AppKey } from "./keys/key.ts";
import type { Problems } from "./problems.ts";
import { isTable, parseToml } from "./toml.ts";
import type { RawTable } from "./toml.ts";

/** A raw value and the name it goes by where it was given. */
export type Given = { readonly name: string; readonly raw: unknown };

/** One place that may give values; where it gives none, the next weaker one is asked. */
export type Layer = {
  readonly find: (key: Pick<AppKey<unknown>, "path" | "payload">) => Given | undefined;
};

/** The members of a deploy payload. Unknown members are ignored: clients send more than configuration. */
export function payloadLayer(payload: RawTable): Layer {
  return {
    find({ payload: member }) {
      if (member === null || !Object.hasOwn(payload, member)) return undefined;
      const raw = payload[member];
      return raw === null || raw === undefined ? undefined : { name: member, raw };
    },
  };
}

/** The text of a configuration file in either form; null when it cannot be used. */
export function tomlLayer(text: string, fileName: string, problems: Problems): Layer | null {
  const file = parseToml(text, fileName, problems);
  if (file === null) return null;
  checkShape(file, problems);
  const root = file[ROOT_TABLE];
  const prefix = root === undefined ? "" : `${ROOT_TABLE}.`;
  const tables = root === undefined ? file : isTable(root) ? root : {};
  const grace = gracePeriods(file, tables, prefix);
  if (grace.length > 1) {
    const [used, ...others] = grace.map(({ name }) => name);
    problems.warn(`${used} is used; ${others.join(" and ")} ${others.length === 1 ? "is" : "are"} ignored`);
  }
  return {
    find({ path }) {
      if (path === GRACE_PATH) return grace[0];
      const raw = lookUp(tables, path);
      return raw === undefined ? undefined : { name: prefix + path, raw };
    },
  };
}

/** The strongest layer's value. */
export function findIn(
  layers: readonly Layer[],
  key: Pick<AppKey<unknown>, "path" | "payload">,
): Given | undefined {
  for (const layer of layers) {
    const given = layer.find(key);
    if (given !== undefined) return given;
  }
  return undefined;
}

const GRACE_PATH = `scaling.${TOP_LEVEL_KEY}`;

/** Everywhere the file gives the grace period, the place that counts first. */
function gracePeriods(file: RawTable, tables: RawTable, prefix: string): Given[] {
  const sources: Given[] = [
    { name: prefix + GRACE_PATH, raw: lookUp(tables, GRACE_PATH) },
    { name: prefix + TOP_LEVEL_KEY, raw: tables[TOP_LEVEL_KEY] },
    { name: TOP_LEVEL_KEY, raw: prefix === "" ? undefined : file[TOP_LEVEL_KEY] },
  ];
  return sources.filter(({ raw }) => raw !== undefined);
}

function lookUp(table: RawTable, path: string): unknown {
  let value: unknown = table;
  for (const name of path.split(".")) {
    if (!isTable(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}
