import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { LAYERS } from "../support/architecture-rules.ts";
import { REPOSITORY } from "../support/source-files.ts";

const read = (name: string): string => readFileSync(join(REPOSITORY, name), "utf8");

const DOCUMENTS = [
  "README.md",
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  ...["docs", "docs/decisions"].flatMap((folder) =>
    readdirSync(join(REPOSITORY, folder))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `${folder}/${name}`),
  ),
];

/** Files and folders of the repository that a text names in code, from its root, and links, from its own place. */
function pathsNamed(text: string, document: string): string[] {
  const inCode = [
    ...text.matchAll(
      /`((?:src|test|python|docs|bench|examples|bin|web|client|scripts|packaging|\.ci)\/[^`\s]*)`/g,
    ),
  ];
  const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)];
  return [
    ...inCode.map(([, path = ""]) => path),
    ...links.map(([, path = ""]) => join(dirname(document), path)),
  ];
}

const missing = (paths: readonly string[]): string[] =>
  paths.filter((path) => !existsSync(join(REPOSITORY, path)));

/** The scripts a text runs by `npm run`. */
function scriptsNamed(text: string): string[] {
  return [...text.matchAll(/npm run ([a-z][a-z:]*)/g)].map(([, name = ""]) => name);
}

/** The rooms of the table under "Rooms and layers", lowest layer first; a row out of order is an empty layer. */
function layersOf(text: string): string[][] {
  const section = text.split(/^## /m).find((part) => part.startsWith("Rooms and layers")) ?? "";
  const rows = [...section.matchAll(/^\| (\d+) \| ([^|]+) \|/gm)].toReversed();
  return rows.map(([, layer, rooms = ""], place) =>
    Number(layer) === place ? [...rooms.matchAll(/`([^`]+)`/g)].map(([, room = ""]) => room) : [],
  );
}

describe("the documents as they stand", () => {
  test.each(DOCUMENTS)("every file and folder that %s names exists", (document) => {
    expect(missing(pathsNamed(read(document), document))).toEqual([]);
  });

  test("the scan sees the paths that are there", () => {
    expect(pathsNamed(read("ARCHITECTURE.md"), "ARCHITECTURE.md").length).toBeGreaterThan(30);
    expect(pathsNamed(read("CONTRIBUTING.md"), "CONTRIBUTING.md").length).toBeGreaterThan(15);
    expect(pathsNamed(read("README.md"), "README.md")).toContain("docs/api.md");
  });

  test("the layers of ARCHITECTURE.md are those the architecture test enforces", () => {
    expect(layersOf(read("ARCHITECTURE.md"))).toEqual(LAYERS);
  });

  test("every script that a document runs is one of package.json's", () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const named = DOCUMENTS.flatMap((document) => scriptsNamed(read(document)));
    expect(named).toContain("check");
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  test("each path of the run's way is a file, and each type it names is exported there or beside it", () => {
    const section = read("ARCHITECTURE.md")
      .split(/^## /m)
      .find((part) => part.startsWith("The path of a run"));
    const types = new Set([...(section ?? "").matchAll(/`([A-Z][A-Za-z]+)`/g)].map(([, name = ""]) => name));
    types.delete("Buffer");
    const files = new Set(
      pathsNamed(section ?? "", "ARCHITECTURE.md").filter((path) => path.endsWith(".ts")),
    );
    const source = [...files, "src/model/outcome.ts", "src/model/run.ts", "src/identity/principal.ts"]
      .map(read)
      .join("\n");
    expect(types.size).toBeGreaterThan(8);
    const unknown = [...types].filter((name) => !new RegExp(`export (?:type|class) ${name}\\b`).test(source));
    expect(unknown).toEqual([]);
  });
});

describe("the comparison finds planted faults", () => {
  test("a path that is not there, in code and in a link, and a script that is not there", () => {
    const text =
      "See `src/kit/gone.ts`, `web/gone.ts`, [x](gone.md#top) and `src/kit/`; run npm run gone:away.";
    expect(missing(pathsNamed(text, "docs/api.md"))).toEqual([
      "src/kit/gone.ts",
      "web/gone.ts",
      "docs/gone.md",
    ]);
    expect(scriptsNamed(text)).toEqual(["gone:away"]);
  });

  test("a room on another layer, one left out, and rows out of order", () => {
    const table = (rows: string): string =>
      `## Rooms and layers\n\n| layer | rooms | what |\n|---|---|---|\n${rows}`;
    expect(layersOf(table("| 1 | `model` · `kit` | x |\n| 0 | `log` | x |\n"))).toEqual([
      ["log"],
      ["model", "kit"],
    ]);
    expect(layersOf(table("| 0 | `kit` | x |\n| 1 | `model` | x |\n"))).toEqual([[], []]);
  });
});
