import { memo, type ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Fragment, jsx, jsxs } from "../../../web/visible-jsx/jsx-runtime.ts";
import { jsxDEV } from "../../../web/visible-jsx/jsx-dev-runtime.ts";
import { HIDDEN_SAMPLES, hiddenIn } from "../../support/hidden-characters.ts";
import { readSources } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const EVERY = HIDDEN_SAMPLES.join("x");
const BOX = '<span class="hidden-character" title="U+202E">U+202E</span>';

verifies(
  "dashboard.visible",
  "no element shows a character that cannot be seen, wherever its text stands",
  () => {
    const Passing = ({ children }: { readonly children: ReactNode }) => jsx("p", { children });
    const Remembered = memo(Passing);
    const attributes = { title: EVERY, "aria-label": EVERY, placeholder: EVERY, alt: EVERY };
    for (const element of [
      jsx("p", { children: EVERY }),
      jsxs("p", { children: ["Delete ", EVERY, "?"] }),
      jsx("ul", { children: [[EVERY, EVERY], jsx("li", { children: EVERY }, "a")] }),
      jsx(Fragment, { children: EVERY }),
      jsx(Passing, { children: EVERY }),
      jsx(Remembered, { children: EVERY }),
      jsx("pre", { children: EVERY }),
      jsx("option", { children: EVERY }),
      jsx("text", { children: EVERY }),
      jsx("input", attributes),
      jsxDEV("p", { children: EVERY, ...attributes }, undefined, false),
    ]) {
      const markup = renderToStaticMarkup(element);
      expect([markup, hiddenIn(markup)]).toEqual([markup, []]);
      expect(markup).toContain("U+202E");
    }
  },
);

test("ordinary text is passed on untouched, and so is what a field holds", () => {
  const props = { children: ["Runs of ", "hello", 3, null], title: "hello" };
  expect(jsxs("p", props).props).toBe(props);
  expect(renderToStaticMarkup(jsx("input", { defaultValue: "a\u202Eb" }))).toBe('<input value="a\u202Eb"/>');
});

test("a name shows line ends too, a text of several lines keeps them", () => {
  expect(renderToStaticMarkup(jsx("p", { children: "a\nb" }))).toBe(
    '<p>a<span class="hidden-character" title="U+000A">LF</span>b</p>',
  );
  expect(renderToStaticMarkup(jsx("pre", { children: "a\n\tb\u202E" }))).toBe(`<pre>a\n\tb${BOX}</pre>`);
  const className = "min-w-0 whitespace-pre-wrap";
  expect(renderToStaticMarkup(jsx("p", { className, children: "a\nb" }))).toBe(
    `<p class="${className}">a\nb</p>`,
  );
});

test("right-to-left names are isolated, in a sentence without turning it around", () => {
  const shown = (text: string) => renderToStaticMarkup(jsx("p", { children: text }));
  expect(shown("שלום עולם 3!")).toBe("<p><bdi>שלום עולם 3!</bdi></p>");
  expect(shown("دوره abc")).toBe("<p><bdi>دوره abc</bdi></p>");
  expect(shown("Delete דוח Q3 סופי?")).toBe("<p>Delete <bdi>דוח Q3 סופי</bdi>?</p>");
  expect(shown("Delete \u{1E900}\u{1E901}.")).toBe("<p>Delete <bdi>\u{1E900}\u{1E901}</bdi>.</p>");
  expect(shown("א\u202Eב")).toBe(`<p><bdi>א${BOX}ב</bdi></p>`);
});

test("a text of nothing else makes few elements", () => {
  const markup = renderToStaticMarkup(jsx("pre", { children: "a\u202E".repeat(10_000) }));
  expect(markup.match(/<span/g)).toHaveLength(20);
  expect(markup.match(/&lt;U\+202E&gt;/g)).toHaveLength(9_980);
});

/** Ways for text to get into a page without `visible-jsx/`, and the files that may use them. */
const WAYS =
  /\bcreateElement\(|dangerouslySetInnerHTML|\.(?:innerHTML|outerHTML|textContent|innerText) =|insertAdjacent|document\.title|@jsx|["']react\/jsx-/;
const ALLOWED = /^web\/(?:visible-jsx\/|guide\/|parts\/(?:title|save-text|copy-text)\.ts$)/;

test("no page makes elements in another way", () => {
  const around = (files: ReadonlyMap<string, string>): string[] =>
    [...files].filter(([file, text]) => !ALLOWED.test(file) && WAYS.test(text)).map(([file]) => file);
  expect(around(readSources(["web"], [".ts", ".tsx"]))).toEqual([]);
  const planted = [
    "document.title = name",
    "dangerouslySetInnerHTML={{ __html: name }}",
    "/** @jsxRuntime classic */",
  ];
  expect(around(new Map(planted.map((text, index) => [`web/pages/${index}.tsx`, text])))).toHaveLength(3);
});
