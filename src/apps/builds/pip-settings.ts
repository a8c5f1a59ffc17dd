import path from "node:path";
import { readFile } from "../../kit/files.ts";

/** Where the host's pip looks for packages. */
export type PipSettings = {
  /** The index that the host has chosen; null where it leaves that to the installer. */
  readonly indexUrl: string | null;
  readonly extraIndexUrls: readonly string[];
  readonly findLinks: readonly string[];
  readonly noIndex: boolean;
  readonly trustedHosts: readonly string[];
  /** A file of certificates; empty for none. */
  readonly cert: string;
};

/** Reads what pip would read: its variables, then the files of the user and of the machine. */
export async function readPipSettings(host: NodeJS.ProcessEnv): Promise<PipSettings> {
  const files: Map<string, string>[] = [];
  for (const file of pipSettingsFiles(host)) {
    const text = await readFile(file, "utf8").catch(() => null);
    if (text !== null) files.push(readIni(text));
  }
  const value = (key: string): string => {
    const variable = host[`PIP_${key.toUpperCase().replaceAll("-", "_")}`];
    if (variable !== undefined) return variable;
    for (const file of files) {
      const found = file.get(`install.${key}`) ?? file.get(`global.${key}`);
      if (found !== undefined) return found;
    }
    return "";
  };
  const list = (key: string): string[] => value(key).split(/\s+/).filter(Boolean);
  const indexUrl = value("index-url").trim();
  return {
    indexUrl: indexUrl === "" ? null : indexUrl,
    extraIndexUrls: list("extra-index-url"),
    findLinks: list("find-links"),
    trustedHosts: list("trusted-host"),
    cert: value("cert").trim(),
    noIndex: /^(1|true|yes|on)$/i.test(value("no-index").trim()),
  };
}

/** Where pip looks for its settings, the strongest first. */
export function pipSettingsFiles(host: NodeJS.ProcessEnv): string[] {
  const chosen = host["PIP_CONFIG_FILE"];
  if (chosen === "/dev/null") return [];
  const home = host["HOME"] ?? "/";
  const config = host["XDG_CONFIG_HOME"] ?? path.join(home, ".config");
  return [
    ...(chosen === undefined ? [] : [chosen]),
    path.join(config, "pip", "pip.conf"),
    path.join(home, ".pip", "pip.conf"),
    "/etc/xdg/pip/pip.conf",
    "/etc/pip.conf",
  ];
}

/** Keys as `section.key`; lines that begin with a blank continue the value before. */
function readIni(text: string): Map<string, string> {
  const values = new Map<string, string>();
  let section = "";
  let key = "";
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const [, name] = /^\[([^\]]+)\]/.exec(line) ?? [];
    const [, left = "", right = ""] = /^([^=:\s][^=:]*?)\s*[=:]\s*(.*)$/.exec(line) ?? [];
    if (name !== undefined) section = name;
    else if (/^\s/.test(line)) values.set(key, `${values.get(key) ?? ""} ${line.trim()}`);
    else values.set((key = `${section}.${left.toLowerCase().replaceAll("_", "-")}`), right.trim());
  }
  return values;
}
