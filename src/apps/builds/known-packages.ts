import path from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { readdir } from "../../kit/files.ts";
import { hostEnvironment } from "./build-environment.ts";
import { readPipSettings } from "./pip-settings.ts";
import { askPython, PYTHON_REQUEST } from "./pip-wheel.ts";
import type { Requirements } from "./requirements.ts";
import type { BuildSite } from "./site.ts";

/** A null index is pip's own default. */
const ASK = `${PYTHON_REQUEST}
import concurrent.futures, json, sys, urllib.error
asked = json.load(sys.stdin)

def default_index():
    try:
        from pip._internal.models.index import PyPI
        return PyPI.simple_url
    except Exception:
        return None

indexes = [index or default_index() for index in asked["indexes"]]

def ask(index, name):
    if index is None:
        return None
    request = request_for(index.rstrip("/") + "/" + name + "/", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=15):
            return True
    except urllib.error.HTTPError as error:
        return False if error.code == 404 else None
    except (OSError, ValueError):
        return None

def look(name):
    answers = [ask(index, name) for index in indexes]
    return "known" if True in answers else "unsure" if None in answers else "unknown"

with concurrent.futures.ThreadPoolExecutor(8) as threads:
    names = asked["names"]
    print(json.dumps(dict(zip(names, threads.map(look, names)))))`;

const ANSWER = z.record(z.string(), z.enum(["known", "unsure", "unknown"]));
const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?=$|[\s[<>=!~;,])/;
/** Longer than the slowest index takes for all names. */
const LIMIT_MS = 120_000;

/** The packages that no index of pip has, and those for which none could be asked. Addresses and local files count as known. */
export async function unknownPackages({ packages, links, flags }: Requirements, site: BuildSite) {
  const { indexUrl, extraIndexUrls, findLinks, noIndex } = await readPipSettings(site.host);
  const names = packages
    .filter((text) => !text.includes("@"))
    .flatMap((text) => NAME.exec(text)?.[0] ?? [])
    .map(normalized);
  const folders = [...links.map(({ fullPath }) => fullPath), ...findLinks.flatMap(localFolder)];
  const files = (await Promise.all(folders.map(filesIn))).flat();
  const wanted = names.filter((name) => !files.some((file) => file.startsWith(`${name}-`)));
  if (wanted.length === 0) return { unknown: [], unsure: [] };
  const isClosed = noIndex || flags.includes("--no-index");
  const indexes = isClosed ? [] : [indexUrl, ...extraIndexUrls];
  const answer = await ask({ indexes, names: wanted }, site);
  // A page of links that is not on this machine is not read.
  const isSure = findLinks.every((link) => localFolder(link).length > 0);
  const those = (state: string): string[] => wanted.filter((name) => (answer?.[name] ?? "unsure") === state);
  const unknown = those("unknown");
  return isSure
    ? { unknown, unsure: those("unsure") }
    : { unknown: [], unsure: [...unknown, ...those("unsure")] };
}

function localFolder(link: string): string[] {
  if (link.startsWith("file:")) return [fileURLToPath(link)];
  return path.isAbsolute(link) ? [link] : [];
}

/** The names of the files in a folder, written as an index writes names. */
async function filesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch((): string[] => [])).map(normalized);
}

function normalized(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}

async function ask(
  question: { readonly indexes: readonly (string | null)[]; readonly names: readonly string[] },
  site: BuildSite,
): Promise<z.infer<typeof ANSWER> | null> {
  const options = { env: hostEnvironment(site), timeout: LIMIT_MS, signal: site.signal };
  const text = await askPython(site.python.path, ASK, JSON.stringify(question), options).catch(() => "null");
  site.signal.throwIfAborted();
  const read = ANSWER.safeParse(JSON.parse(text.toString()));
  return read.success ? read.data : null;
}
