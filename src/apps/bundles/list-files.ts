import path from "node:path";
import { open, readdir, realpath, stat } from "../../kit/files.ts";
import { createHash } from "node:crypto";
import { COG_FILE } from "../../config/cog.ts";

/** Whether a name, such as `a/b.py`, or a folder above it matches a pattern. */
type FileMatcher = (name: string) => boolean;

/** Shell patterns. Without a slash they match at any depth, else from the root, where `*` crosses folders. */
export function readFilePatterns(patterns: readonly string[]): FileMatcher {
  const anywhere: RegExp[] = [];
  const fromRoot: RegExp[] = [];
  for (const pattern of patterns) {
    const plain = pattern
      .trim()
      .replace(/^(?:\.\/)+/, "")
      .replace(/\/+$/, "");
    if (plain === "" || plain === ".") continue;
    if (plain.includes("/")) fromRoot.push(toRegExp(plain.replace(/^\/+/, "")));
    else anywhere.push(toRegExp(plain));
  }
  return (name) => {
    const names = name.split("/");
    if (names.some((one) => anywhere.some((pattern) => pattern.test(one)))) return true;
    if (fromRoot.length === 0) return false;
    const prefixes = names.map((_, index) => names.slice(0, index + 1).join("/"));
    return prefixes.some((prefix) => fromRoot.some((pattern) => pattern.test(prefix)));
  };
}

function toRegExp(pattern: string): RegExp {
  const source = pattern.replace(
    /\*\*+\/|\*+|\?|\[(!?)([^\]]+)\]|[\\^$.|+(){}[\]]/g,
    (special: string, not: string | undefined, set: string | undefined) => {
      if (special.endsWith("/")) return "(?:.*/)?";
      if (special.startsWith("*")) return ".*";
      if (special === "?") return "[^/]";
      if (set !== undefined) return `[${not ? "^" : ""}${set.replace(/[\\^[]/g, "\\$&")}]`;
      return `\\${special}`;
    },
  );
  try {
    return new RegExp(`^${source}$`, "su");
  } catch {
    // A set such as [z-a] is empty.
    return /(?!)/;
  }
}

/** A file of a bundle: its name from the root, with slashes, and where it is. */
export type BundleFile = { readonly name: string; readonly path: string; readonly bytes: number };

export type BundlePatterns = { readonly include: readonly string[]; readonly exclude: readonly string[] };

const CONFIG_FILES: ReadonlySet<string> = new Set(["millrace.toml", "cerebrium.toml", COG_FILE]);

/** A folder's files by `include` and `exclude`, sorted; always the configuration, never `__pycache__`. Follows links. */
export async function listBundleFiles(folder: string, patterns: BundlePatterns): Promise<BundleFile[]> {
  const include = readFilePatterns(patterns.include);
  const exclude = readFilePatterns([...patterns.exclude, "__pycache__"]);
  const files: BundleFile[] = [];
  await walk({ folder, below: "", above: [await realpath(folder)] }, { include, exclude }, files);
  return files.toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
}

async function walk(
  { folder, below, above }: { folder: string; below: string; above: readonly string[] },
  patterns: { readonly include: FileMatcher; readonly exclude: FileMatcher },
  files: BundleFile[],
): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const name = `${below}${entry.name}`;
    if (!CONFIG_FILES.has(name) && patterns.exclude(name)) continue;
    const target = path.join(folder, entry.name);
    // Null for a link that leads nowhere.
    const facts = await stat(target).catch(() => null);
    if (facts?.isDirectory()) {
      const real = entry.isSymbolicLink()
        ? await realpath(target)
        : path.join(above.at(-1) ?? "", entry.name);
      if (above.includes(real)) continue;
      await walk({ folder: target, below: `${name}/`, above: [...above, real] }, patterns, files);
    } else if (facts?.isFile() && (CONFIG_FILES.has(name) || patterns.include(name))) {
      files.push({ name, path: target, bytes: facts.size });
    }
  }
}

/** A hash over a folder's files, their names, contents and right to be executed: equal for equal bundles. */
export async function hashFolder(folder: string, patterns: BundlePatterns): Promise<string> {
  const hash = createHash("sha256");
  for (const { name, path } of await listBundleFiles(folder, patterns)) {
    const { mode, size } = await stat(path);
    hash.update(`${name}\0${mode & 0o100}\0${size}\0`);
    for await (const chunk of (await open(path)).createReadStream() as AsyncIterable<Buffer>)
      hash.update(chunk);
  }
  return hash.digest("hex");
}
