import type { RenderedPage } from "./render.ts";

/** Every link of the pages that leads nowhere: no such page, or no such heading on it. Other sites are not asked. */
export function brokenLinks(
  pages: readonly Pick<RenderedPage, "file" | "name" | "headings" | "links">[],
): string[] {
  const anchorsByName = new Map(
    pages.map(({ name, headings }) => [name, new Set(headings.map(({ anchor }) => anchor))]),
  );
  return pages.flatMap(({ file, name, links }) =>
    links.filter((link) => !leadsSomewhere(link, name, anchorsByName)).map((link) => `${file}: ${link}`),
  );
}

function leadsSomewhere(
  link: string,
  from: string,
  anchorsByName: ReadonlyMap<string, ReadonlySet<string>>,
): boolean {
  if (/^https?:\/\//.test(link)) return true;
  const [name = "", anchor] = link.split("#");
  const anchors = anchorsByName.get(name || from);
  return anchors !== undefined && (anchor === undefined || anchors.has(anchor));
}
