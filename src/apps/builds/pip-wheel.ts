import { createHash } from "node:crypto";
import { execFile } from "node:child_process";
import path from "node:path";
import { writeFile } from "../../kit/files.ts";
import { BuildError, type Env } from "./site.ts";

/** Python that makes a request for an address, which may hold a password. It uses pip's proxies and certificates. */
export const PYTHON_REQUEST = `import base64, urllib.parse, urllib.request
def request_for(url, **more):
    address = urllib.parse.urlsplit(url)
    request = urllib.request.Request(address._replace(netloc=address.netloc.rpartition("@")[2]).geturl(), **more)
    if address.username:
        pair = urllib.parse.unquote(address.username) + ":" + urllib.parse.unquote(address.password or "")
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    return request
`;
const DOWNLOAD = `${PYTHON_REQUEST}
import shutil, sys
request = request_for(sys.stdin.read(), headers={"Accept": "text/html, */*;q=0.1"})
with urllib.request.urlopen(request, timeout=60) as answer:
    shutil.copyfileobj(answer, sys.stdout.buffer)`;
const WHEEL = /\/pip-(\d+(?:\.\d+)*)-(?:py2\.)?py3-none-any\.whl$/;
const LINK = /<a\s((?:[^>"']|"[^"]*"|'[^']*')*)>/gi;
const MAX_BYTES = 64 * 1024 * 1024;

type Wheel = { readonly url: string; readonly version: readonly number[]; readonly sha256: string };

export type Download = (url: string) => Promise<Buffer>;

/** Fetches the newest pip for that Python from a PEP 503 index into a folder, for Pythons without pip and ensurepip. */
export async function fetchPipWheel(
  indexUrl: string,
  pythonVersion: string,
  folder: string,
  download: Download,
): Promise<string> {
  const page = `${indexUrl.replace(/\/+$/, "")}/pip/`;
  const wheel = newestWheel((await download(page)).toString("utf8"), page, pythonVersion);
  if (!wheel)
    throw new BuildError(`the index ${withoutPassword(indexUrl)} has no pip for Python ${pythonVersion}`);
  const bytes = await download(wheel.url);
  if (createHash("sha256").update(bytes).digest("hex") !== wheel.sha256)
    throw new BuildError(`${withoutPassword(wheel.url)} does not match the index's sha256`);
  const file = path.join(folder, path.basename(new URL(wheel.url).pathname));
  await writeFile(file, bytes);
  return file;
}

export function pythonDownload(python: string, env: Env, signal: AbortSignal): Download {
  return async (url) => {
    try {
      return await askPython(python, DOWNLOAD, url, { env, signal });
    } catch (error) {
      signal.throwIfAborted();
      const { stderr, message } = error as Error & { stderr?: string };
      const why = stderr?.trim().split("\n").at(-1) ?? message;
      throw new BuildError(`cannot fetch ${withoutPassword(url)}: ${why}`);
    }
  };
}

/** What a short program prints that gets `input`; rejects with what it prints as an error. Isolated from what builds write. */
export async function askPython(
  python: string,
  program: string,
  input: string,
  options: { env: Env; timeout?: number; signal: AbortSignal },
): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const more = { ...options, env: { ...options.env }, encoding: "buffer", maxBuffer: MAX_BYTES } as const;
    const child = execFile(python, ["-I", "-c", program], more, (error, stdout, stderr) => {
      if (error) reject(Object.assign(error, { stderr: stderr.toString("utf8") }));
      else resolve(stdout);
    });
    child.stdin?.on("error", () => {}); // It ended before it read: its exit tells.
    child.stdin?.end(input);
  });
}

/** The newest wheel of an index page that runs on that Python, is not withdrawn, and whose hash is known. */
export function newestWheel(html: string, page: string, pythonVersion: string): Wheel | null {
  let newest: Wheel | null = null;
  for (const [, attributes = ""] of html.matchAll(LINK)) {
    const href = attribute(attributes, "href");
    if (href === null || /\bdata-yanked\b/i.test(attributes)) continue;
    if (!runsOn(attribute(attributes, "data-requires-python") ?? "", pythonVersion)) continue;
    if (!URL.canParse(href, page)) continue;
    const url = absolute(href, page);
    const [, version] = WHEEL.exec(url.pathname) ?? [];
    const [, sha256] = /^#(?:.*&)?sha256=([0-9a-f]{64})\b/.exec(url.hash) ?? [];
    if (version === undefined || sha256 === undefined) continue;
    url.hash = "";
    const wheel = { url: url.href, version: version.split(".").map(Number), sha256 };
    if (!newest || compare(wheel.version, newest.version) > 0) newest = wheel;
  }
  return newest;
}

/** An index's own password goes to that index alone. */
function absolute(href: string, page: string): URL {
  const base = new URL(page);
  const url = new URL(href, page);
  if (url.origin === base.origin) [url.username, url.password] = [base.username, base.password];
  return url;
}

function attribute(attributes: string, name: string): string | null {
  const [, quoted, single] =
    new RegExp(`\\b${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`, "i").exec(attributes) ?? [];
  const value = quoted ?? single;
  return value === undefined
    ? null
    : value.replaceAll("&gt;", ">").replaceAll("&lt;", "<").replaceAll("&amp;", "&");
}

/** Whether a version fits clauses such as `>=3.8,!=3.9.*`; a clause of another form is taken to fit. */
function runsOn(clauses: string, pythonVersion: string): boolean {
  const python = pythonVersion.split(".").map(Number);
  return clauses.split(",").every((clause) => {
    const [, operator, text = ""] = /^\s*(>=|<=|>|<|!=|==)\s*(\d+(?:\.\d+)*)(?:\.\*)?\s*$/.exec(clause) ?? [];
    const version = text.split(".").map(Number);
    const order = compare(python.slice(0, clause.includes("*") ? version.length : undefined), version);
    if (operator === ">=") return order >= 0;
    if (operator === "<=") return order <= 0;
    if (operator === ">") return order > 0;
    if (operator === "<") return order < 0;
    if (operator === "!=") return order !== 0;
    return operator !== "==" || order === 0;
  });
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]+@/, "//");
}
