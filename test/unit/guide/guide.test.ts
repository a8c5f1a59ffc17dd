import { expect, test } from "vitest";
import { brokenLinks } from "../../../scripts/guide/broken-links.ts";
import { layOut } from "../../../scripts/guide/layout.ts";
import { renderPages } from "../../../scripts/guide/render.ts";
import { type GuideSource, readSources } from "../../../scripts/guide/sources.ts";
import { verifies } from "../../verifies.ts";

const pages = renderPages(readSources());

/** A page of which only the text matters. */
function source(file: string, markdown: string): GuideSource {
  const name = file.replace(/^.*\//, "").replace(".md", ".html");
  return { file, name, group: "Group", label: undefined, isForContributors: false, markdown };
}

verifies("guide.links", "every link and anchor of every document leads to a page and a heading", () => {
  expect(pages.length).toBeGreaterThan(30);
  expect(pages.flatMap(({ links }) => links).length).toBeGreaterThan(60);
  expect(brokenLinks(pages)).toEqual([]);
});

/** The sidebar of a page as a reader sees it: headings, and what is listed below each. */
function sidebarOf(name: string): string[] {
  const html = layOut(
    pages.find((page) => page.name === name)!,
    pages,
  );
  const [, sidebar = ""] = /<nav id="sidebar"[^>]*>([^]*?)<\/nav>/.exec(html) ?? [];
  return [...sidebar.matchAll(/<(?:h2|a|details|summary)[^>]*>([^<]*)/g)].map(([tag, text]) =>
    tag.startsWith("<h2") ? `# ${text}` : tag.startsWith("<details") ? tag.trim() : (text ?? ""),
  );
}

verifies(
  "guide.order",
  "tasks come first, in the order in which a reader has them, and decisions last",
  () => {
    const sidebar = sidebarOf("index.html");
    const groups = ["Your first app", "Packages and Python", "Models, weights, GPUs", "Calling it"];
    groups.push(
      "Queues, schedules, batches",
      "Install",
      "Operate",
      "Moving here",
      "Reference",
      "For contributors",
    );
    expect(sidebar.filter((line) => line.startsWith("# "))).toEqual(groups.map((group) => `# ${group}`));
    // A group of one page is that page.
    expect(sidebar.slice(0, 3)).toEqual(["Start", "Concepts", "# Your first app"]);
    expect(sidebar).toEqual(
      expect.arrayContaining(["Scaling", "Servers and WebSockets", "Batching", "CI/CD"]),
    );
    const folded = sidebar.indexOf("<details>");
    expect(sidebar[folded + 1]).toBe("Decisions");
    expect(sidebar.slice(folded + 2).filter((label) => !/^\d{4} /.test(label))).toEqual([]);
    expect(sidebarOf("0021-guide-and-reference.html")).toContain("<details open>");
  },
);

test("a block of code is headed by the file that it is", () => {
  const [page] = renderPages([source("one.md", "# One\n\n```python app/main.py\nx\n```\n\n```sh\ny\n```")]);
  expect(page?.html.match(/class="file">[^<]*/g)).toEqual(['class="file">app/main.py']);
});

test("each page has a title and a name of its own, and nothing that its policy forbids", () => {
  expect(new Set(pages.map(({ name }) => name)).size).toBe(pages.length);
  for (const page of pages) {
    const html = layOut(page, pages);
    expect([page.file, page.headings.filter(({ depth }) => depth === 1).length]).toEqual([page.file, 1]);
    const inline = html.match(
      /<script(?![^>]* src=")|<style|\son\w+="|\sstyle="|(?:src|action)="(?:https?:)?\/\//g,
    );
    expect([page.file, inline]).toEqual([page.file, null]);
  }
});

test("a link to a page or heading that is not there is found, with where it stands", () => {
  const rendered = renderPages([
    source("docs/one.md", "# One\n\n[a](two.md) [b](two.md#a-part) [c](#one) [d](https://example.test/x)"),
    source(
      "docs/two.md",
      "# Two\n\n## A part\n\n[e](two.md#gone) [f](../GONE.md) [g](one.md#gone) [h](#gone)",
    ),
  ]);
  expect(brokenLinks(rendered)).toEqual([
    "docs/two.md: two.html#gone",
    "docs/two.md: ../GONE.md",
    "docs/two.md: one.html#gone",
    "docs/two.md: #gone",
  ]);
});

test("headings have the anchors that Git hosts give them, twice the same ones too", () => {
  const [page] = renderPages([source("one.md", "# `a_b` & C, d\n\n## Same\n\n## Same\n\n## Ünder way?")]);
  expect(page?.headings.map(({ anchor }) => anchor)).toEqual(["a_b--c-d", "same", "same-1", "ünder-way"]);
});

test("what documents hold is text: markup in code and in alternative texts stays what it is", () => {
  const [page] = renderPages([
    source(
      "one.md",
      '# One\n\n```html\n<img src=x onerror="y">\n```\n\n`<b>` <i>x</i> ![a "b"](images/c.png)',
    ),
  ]);
  expect(page?.html).toContain("&lt;img src=x onerror=&quot;y&quot;&gt;");
  expect(page?.html).toContain("&lt;i&gt;x&lt;/i&gt;");
  expect(page?.html).toContain("<code>&lt;b&gt;</code>");
  expect(page?.html).toContain('<img src="images/c.png" alt="a &quot;b&quot;">');
});
