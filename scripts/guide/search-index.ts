import type { IndexedSection } from "../../web/guide/search.ts";
import type { RenderedPage } from "./render.ts";

/** Every section of every page: where it is, what it is called, its words, and for whom it is. */
export function searchIndex(pages: readonly RenderedPage[]): IndexedSection[] {
  return pages.flatMap(({ name, title, sections, isForContributors }) =>
    sections.map(({ heading, text, names }): IndexedSection => ({
      url: heading.depth === 1 ? name : `${name}#${heading.anchor}`,
      page: title,
      heading: heading.text,
      text: text.replaceAll(/\s+/g, " ").trim(),
      names,
      isForContributors,
    })),
  );
}
