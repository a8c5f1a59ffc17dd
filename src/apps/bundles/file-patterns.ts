/** Whether a name belongs to a pattern, or lies in a folder that does. It has slashes, and none in front. */
export type FileMatcher = (name: string) => boolean;

/**
 * Patterns as shells and `fnmatch` know them: `*`, `?`, `[abc]`, `[!abc]`. One without a slash fits a name at any
 * depth, another one the whole way from the root, and then `*` goes across folders. What fits a folder fits all that
 * is in it. A `./` in front and a slash at the end say nothing more.
 */
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
    // A set such as [z-a], in which there is nothing.
    return /(?!)/;
  }
}
