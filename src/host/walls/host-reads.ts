import path from "node:path";
import { fileURLToPath } from "node:url";

/** Variables that apps inherit and that name files of the host. */
const OF_APPS = ["LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"];
/** Names of folders that hold only programs. */
const PROGRAMS = new Set(["bin", "sbin"]);

/** Programs, libraries and certificates that inherited variables name, without folders that hold the data or the home. */
export function hostReads(host: NodeJS.ProcessEnv, dataDir: string): string[] {
  const programs = (host["PATH"] ?? "").split(path.delimiter);
  const found = [
    ...programs.filter((folder) => PROGRAMS.has(path.basename(folder))),
    ...OF_APPS.flatMap((name) => (host[name] ?? "").split(path.delimiter)),
  ];
  return withoutPrivate(found, host, dataDir);
}

/** The files and folders in values: paths or `file:` URLs, separated by spaces. */
export function namedPaths(values: readonly string[], host: NodeJS.ProcessEnv, dataDir: string): string[] {
  const words = values.flatMap((value) => [value, ...value.split(/\s+/)]);
  return withoutPrivate(words.map(pathOf), host, dataDir);
}

function pathOf(word: string): string {
  if (!word.startsWith("file:")) return word;
  try {
    return fileURLToPath(word);
  } catch {
    return "";
  }
}

function withoutPrivate(found: readonly string[], host: NodeJS.ProcessEnv, dataDir: string): string[] {
  const home = path.resolve(host["HOME"] ?? "/");
  const data = path.resolve(dataDir);
  const absolute = found.filter((each) => path.isAbsolute(each)).map((each) => path.resolve(each));
  return [...new Set(absolute)].filter(
    (each) => !isWithin(home, each) && !isWithin(data, each) && !isWithin(each, data),
  );
}

function isWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(path.sep) ? outer : outer + path.sep);
}
