import { labelBelow } from "../kit/http/fields.ts";
import { isTable, parseToml, type RawTable, readConfigFile } from "./toml.ts";
import { nearest, Problems } from "./problems.ts";
import { line, type Reader, type SettingKey } from "./readers.ts";
import { DROPPED, ENV_PREFIX, envOf, flagMemberOf, flagOf, INTERNALS, SETTING_KEYS } from "./setting-keys.ts";
import type { Settings } from "./setting-keys.ts";
import { readMetricExport } from "./metric-export.ts";
import { readTelemetry } from "./telemetry.ts";

/** Where settings come from, strongest first. */
export type SettingSources = {
  /** As a command-line parser gives them: `{ dataDir: "…", config: "…" }`; other members are not ours. */
  readonly flags: Readonly<Record<string, unknown>>;
  /** Empty variables count as unset. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What a command has instead of a setting's own default, by the setting's name. */
  readonly defaults?: Readonly<Record<string, string>>;
};

const CONFIG_ENV = envOf("config");
/** JSON of `INTERNALS`, for tests that start the service as a process of its own. */
const INTERNALS_ENV = envOf("internals");
/** Set by `bin/millrace` for the service below it. */
export const PARENT_ENV = envOf("parent");
/** What the command line itself goes by; no settings of a service. */
const CLIENT_ENV = ["URL", "API_URL", "TOKEN", "PROJECT", "DEBUG", "BACKUP_PASSPHRASE"].map(
  (name) => ENV_PREFIX + name,
);

/** Reads every setting, flags over environment over file; throws one ConfigError with all problems. */
export function readSettings(sources: SettingSources): { settings: Settings; warnings: string[] } {
  const problems = new Problems();
  const file = readSettingsFile(sources, problems);
  const settings: Record<string, unknown> = { ...INTERNALS, ...readInternals(sources.env, problems) };
  for (const [field, key] of Object.entries<SettingKey<unknown>>(SETTING_KEYS)) {
    const text = sources.defaults?.[key.name] ?? key.default ?? null;
    const usual = { name: key.name, raw: text === null ? null : rawOf(key.reader, text) };
    const given = find(key, sources, file) ?? usual;
    settings[field] = problems.read(key.reader, given.name, given.raw);
  }
  settings["traces"] = readTelemetry(sources.env, problems);
  settings["metricExport"] = readMetricExport(sources.env, problems);
  refuseDropped(sources, file, problems);
  warnOfUnknown(sources.env, file, problems);
  // Every field was read or its problem is on the list, and then nothing is returned.
  const read = settings as Settings;
  checkAddresses(read, problems);
  if (read.smtpUrl && read.smtpFrom === null) problems.add("smtp_from is required when smtp_url is set");
  problems.throwIfAny("The configuration of the service");
  return { settings: read, warnings: problems.warnings };
}

function readInternals(env: SettingSources["env"], problems: Problems): RawTable {
  const text = env[INTERNALS_ENV] || "{}";
  try {
    const given: unknown = JSON.parse(text);
    if (isTable(given)) return given;
    problems.misfit(INTERNALS_ENV, "a JSON object", given);
  } catch (error) {
    problems.add(`${INTERNALS_ENV} must be a JSON object: ${(error as Error).message}`);
  }
  return {};
}

function readSettingsFile({ flags, env }: SettingSources, problems: Problems): RawTable {
  const path = flags["config"] || env[CONFIG_ENV];
  if (typeof path !== "string" || path === "") return {};
  const file = readConfigFile(path);
  if (file.kind === "text") return parseToml(file.text, path, problems) ?? {};
  problems.add(`${path} ${file.kind === "absent" ? "does not exist" : file.reason}`);
  return {};
}

/** The strongest source that gives the setting, and the name it goes by there. */
function find(
  { name, reader }: Pick<SettingKey<unknown>, "name" | "reader">,
  { flags, env }: SettingSources,
  file: RawTable,
): { name: string; raw: unknown } | undefined {
  const flag = flags[flagMemberOf(name)];
  if (flag !== undefined) {
    return { name: flagOf(name), raw: typeof flag === "string" ? rawOf(reader, flag) : flag };
  }
  const variable = env[envOf(name)];
  if (variable) return { name: envOf(name), raw: rawOf(reader, variable) };
  return Object.hasOwn(file, name) ? { name, raw: file[name] } : undefined;
}

function rawOf({ fromText = String }: Reader<unknown>, text: string): unknown {
  return fromText(text);
}

function refuseDropped(sources: SettingSources, file: RawTable, problems: Problems): void {
  for (const [name, instead] of Object.entries(DROPPED)) {
    const given = find({ name, reader: line(1) }, sources, file);
    if (given) problems.add(`${given.name} is no longer a setting: ${instead}`);
  }
}

function warnOfUnknown(env: SettingSources["env"], file: RawTable, problems: Problems): void {
  const names = Object.values(SETTING_KEYS).map(({ name }) => name);
  const known = [...names, ...Object.keys(DROPPED)];
  const variables = [...known.map(envOf), CONFIG_ENV, INTERNALS_ENV, PARENT_ENV, ...CLIENT_ENV];
  for (const variable of Object.keys(env)) {
    if (!variable.startsWith(ENV_PREFIX) || variables.includes(variable)) continue;
    problems.unknown(variable, () => {
      // Without the prefix: all names share it, and it would make the far ones look near.
      const meant = nearest(variable.slice(ENV_PREFIX.length), [...names, "config"]);
      return meant === null ? null : envOf(meant);
    });
  }
  for (const key of Object.keys(file)) {
    if (!known.includes(key)) problems.unknown(key, () => nearest(key, names));
  }
}

/** The two planes have different addresses; nothing else tells a caller's request apart. */
function checkAddresses(settings: Settings, problems: Problems): void {
  const { apiPort, basePort, publicApiUrl, publicBaseUrl, appHosts, host } = settings;
  if (apiPort !== undefined && apiPort === basePort && apiPort !== 0) {
    problems.add(`api_port and base_port must differ, got ${apiPort} for both`);
  }
  if (publicApiUrl && publicApiUrl === publicBaseUrl) {
    problems.add(`public_api_url and public_base_url must differ, got "${publicApiUrl}" for both`);
  }
  // On an app host, the dashboard would share cookies with that app, and the API would answer 421.
  const hosts = { host, public_base_url: hostOf(publicBaseUrl), public_api_url: hostOf(publicApiUrl) };
  for (const [name, value] of Object.entries(hosts)) {
    if (!appHosts || !value || labelBelow(value, appHosts) === null) continue;
    problems.add(
      `${name} must not be one of *.${appHosts}, the hosts that app_hosts gives to apps; got ${value}`,
    );
  }
}

function hostOf(url: string | null | undefined): string | null {
  return url ? new URL(url).hostname : null;
}
