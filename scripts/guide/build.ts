import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { rolldown } from "rolldown";
import { brokenLinks } from "./broken-links.ts";
import { layOut } from "./layout.ts";
import { renderPages } from "./render.ts";
import { searchIndex } from "./search-index.ts";
import { readAsset, readSources } from "./sources.ts";

const WEB = path.join(import.meta.dirname, "../../web");

/**
 * Builds the guide into a folder: static files with relative links, so any web server can serve them. Throws when a
 * link leads nowhere; the folder is replaced only by a guide that is whole.
 */
export async function buildGuide(outDir: string): Promise<void> {
  const pages = renderPages(readSources());
  const broken = brokenLinks(pages);
  if (broken.length > 0) throw new Error(`links that lead nowhere:\n${broken.join("\n")}`);
  const aside = `${outDir}.new`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(path.join(aside, "images"), { recursive: true });
  const write = async (name: string, content: string | Buffer): Promise<void> =>
    await writeFile(path.join(aside, name), content);
  for (const page of pages) await write(page.name, layOut(page, pages));
  for (const file of new Set(pages.flatMap(({ pictures }) => pictures))) {
    await write(`images/${path.basename(file)}`, readAsset(file));
  }
  await write("search.json", JSON.stringify(searchIndex(pages)));
  await write(
    "guide.css",
    await joined("colours.css", ...["guide", "article", "media"].map((name) => `guide/${name}.css`)),
  );
  for (const name of ["mark.svg", "theme.js"])
    await write(name, await readFile(path.join(WEB, "public", name)));
  await bundleScript(path.join(aside, "guide.js"));
  await rm(outDir, { recursive: true, force: true });
  await rename(aside, outDir);
}

async function joined(...names: readonly string[]): Promise<string> {
  const texts = await Promise.all(names.map((name) => readFile(path.join(WEB, name), "utf8")));
  return texts.join("\n");
}

async function bundleScript(file: string): Promise<void> {
  const build = await rolldown({
    input: path.join(WEB, "guide/guide.ts"),
    platform: "browser",
    logLevel: "silent",
  });
  await build.write({ file, format: "esm", minify: true });
  await build.close();
}
