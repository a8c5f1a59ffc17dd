import { readFile, readdir } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { expect } from "vitest";
import { placeOf } from "../../support/made.ts";
import { verifies } from "../../verifies.ts";

const MAX_BYTES = 250_000;
const webDir = await placeOf("dashboard");

/** The files that are loaded before the page of that name is shown: the entry's, and what the page's own needs. */
async function filesOf(pageName: string): Promise<Set<string>> {
  const html = await readFile(path.join(webDir, "index.html"), "utf8");
  const wanted = [...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map(([, file]) => file!);
  const assets = await readdir(path.join(webDir, "assets"));
  const own = assets.filter((name) => new RegExp(`^${pageName}-[\\w-]{8}\\.js$`).test(name));
  expect(own).not.toEqual([]);
  wanted.push("index.html", ...own.map((name) => `assets/${name}`));
  const files = new Set<string>();
  for (const file of wanted) {
    if (files.has(file)) continue;
    files.add(file);
    if (!file.endsWith(".js")) continue;
    const text = await readFile(path.join(webDir, file), "utf8");
    // Only what is imported at once; pages that come later are `import(…)`.
    for (const [, name] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) wanted.push(`assets/${name}`);
  }
  return files;
}

verifies("dashboard.bundle", "the first page loads at most 250 KB, packed", async () => {
  for (const pageName of ["sign-in", "overview"]) {
    let bytes = 0;
    for (const file of await filesOf(pageName))
      bytes += gzipSync(await readFile(path.join(webDir, file))).length;
    console.log(`${pageName}: ${Math.round(bytes / 1_000)} KB`);
    expect([pageName, bytes > 50_000 && bytes <= MAX_BYTES]).toEqual([pageName, true]);
  }
});
