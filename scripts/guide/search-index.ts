import type { IndexedSection } from "../../web/guide/search.ts";
import type { RenderedPage } from "./render.ts";

/** Every section of every page: where it is, what it is called, and its words. */
export function searchIndex(pages: readonly RenderedPage[]): IndexedSection[] {
  return pages.flatMap(({ name, title, sections }) =>
    sections.map(({ heading, text }): IndexedSection => [
      heading.depth === 1 ? name : `${name}#${heading.anchor}`,
      title,
      heading.text,
      text.replaceAll(/\s+/g, " ").trim(),
    ]),
  );
}
