import { expect, test } from "vitest";
import { renderPages } from "../../../scripts/guide/render.ts";
import { searchIndex } from "../../../scripts/guide/search-index.ts";
import { readSources } from "../../../scripts/guide/sources.ts";
import { type IndexedSection, searchGuide } from "../../../web/guide/search.ts";
import { verifies } from "../../verifies.ts";

const SECTIONS: readonly IndexedSection[] = [
  ["api.html", "The run endpoint", "The run endpoint", "You may cancel a run."],
  ["api.html#cancel", "The run endpoint", "Cancel", "POST to the run's address ends it."],
  ["logs.html", "Logs", "Logs", "A catalogue of lines <b>."],
];

verifies("guide.search", "the best match of the documents comes first, by heading, title and text", () => {
  const index = searchIndex(renderPages(readSources()));
  const urls = (query: string): string[] => searchGuide(index, query).map(({ url }) => url);
  expect(urls("cancel")[0]).toBe("api.html#cancel");
  expect(urls("webhooks")[0]).toBe("webhooks.html");
  expect(urls("response_grace_period")).toContainEqual(expect.stringContaining("config.html"));
  expect(urls("backup restore")).toContainEqual(expect.stringContaining("operations.html"));
  expect(urls("xyzzy")).toEqual([]);
});

test("every word has to be there, and a heading goes before text", () => {
  const urls = (query: string): string[] => searchGuide(SECTIONS, query).map(({ url }) => url);
  expect(urls("cancel")).toEqual(["api.html#cancel", "api.html"]);
  expect(urls("CANCEL may")).toEqual(["api.html"]);
  expect(urls("  ")).toEqual([]);
});

test("an excerpt shows what matched, as text and at any place of a long section", () => {
  const [found] = searchGuide(SECTIONS, "lines cat");
  expect(found?.excerpt).toEqual([
    { text: "A ", isMatch: false },
    { text: "cat", isMatch: true },
    { text: "alogue of ", isMatch: false },
    { text: "lines", isMatch: true },
    { text: " <b>.", isMatch: false },
  ]);
  const long: IndexedSection = ["x.html", "X", "X", `${"before ".repeat(50)}needle${" after".repeat(50)}`];
  const pieces = searchGuide([long], "needle")[0]?.excerpt ?? [];
  expect([pieces[0]?.text, pieces.at(-1)?.text]).toEqual(["…", "…"]);
  expect(pieces.filter(({ isMatch }) => isMatch)).toEqual([{ text: "needle", isMatch: true }]);
});
