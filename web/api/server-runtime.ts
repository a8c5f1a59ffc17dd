import { queryOptions } from "@tanstack/react-query";
import { configurationQuery } from "./apps.ts";
import type { ConfigEntry, ConfigValue } from "./apps.ts";

/** How an app that is a server of its own is started and checked. */
export type ServerRuntime = {
  readonly command: string;
  readonly port: string;
  /** A path; null where it is enough that the server accepts connections. */
  readonly healthCheck: string | null;
  readonly readyCheck: string | null;
};

/** An app's server; null for an app of functions. An error `build_not_found` while nothing serves. */
export function serverQuery(projectId: string, appName: string) {
  return queryOptions({
    ...configurationQuery(projectId, appName),
    select: ({ keys }) => serverOf(keys),
  });
}

function serverOf(keys: readonly ConfigEntry[]): ServerRuntime | null {
  const values = new Map(keys.map(({ key, value }) => [key, value]));
  const valueOf = (name: string): ConfigValue => values.get(`runtime.custom.${name}`) ?? null;
  const entrypoint = valueOf("entrypoint");
  if (!Array.isArray(entrypoint)) return null;
  return {
    command: entrypoint.map(commandWord).join(" "),
    port: textOf(valueOf("port")) ?? "",
    healthCheck: textOf(valueOf("healthcheck_endpoint")),
    readyCheck: textOf(valueOf("readycheck_endpoint")),
  };
}

function textOf(value: ConfigValue): string | null {
  return typeof value === "string" || typeof value === "number" ? String(value) : null;
}

/** A word as one would type it. */
function commandWord(word: string): string {
  return /^[\w@%+=:,./$-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
