import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Repository-relative path → text. Tests plant faults by making such a map by hand. */
export type SourceFiles = ReadonlyMap<string, string>;

/** The root of the repository. */
export const REPOSITORY = join(import.meta.dirname, "../..");

const SKIPPED = new Set(["node_modules", "__pycache__", "dist"]);

/** Every file below `folders` whose name ends with one of `endings`; a folder that is absent holds none. */
export function readSources(folders: readonly string[], endings: readonly string[]): SourceFiles {
  const files = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(REPOSITORY, folder), { withFileTypes: true })) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (!SKIPPED.has(entry.name) && !entry.name.startsWith(".")) walk(path);
      } else if (endings.some((ending) => entry.name.endsWith(ending))) {
        files.set(path, readFileSync(join(REPOSITORY, path), "utf8"));
      }
    }
  };
  const present = new Set(readdirSync(REPOSITORY));
  for (const folder of folders) if (present.has(folder.split("/")[0] ?? "")) walk(folder);
  return files;
}

/** The text with the lines that are only a comment left empty, so that what they quote is not taken for code. */
export function withoutCommentLines(text: string): string {
  return text
    .split("\n")
    .map((line) => (/^\s*(?:\/\/|\/\*|\*\/|\*\s|\*$)/.test(line) ? "" : line))
    .join("\n");
}
