import path from "node:path";
import { Marked, type Tokens } from "marked";
import type { GuideSource } from "./sources.ts";

/** A heading of a page, with the anchor that links use. */
type Heading = { readonly depth: number; readonly text: string; readonly anchor: string };

/** A stretch of a page under one heading, as search sees it, and the names that rows of its tables begin with. */
type Section = { readonly heading: Heading; readonly text: string; readonly names: readonly string[] };

/** A page whose Markdown has become HTML; the frame around it is `layout.ts`'s. */
export type RenderedPage = GuideSource & {
  readonly title: string;
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly sections: readonly Section[];
  /** Where its links lead, as the built page has them: `api.html#cancel`, `#top`, `https://…`. */
  readonly links: readonly string[];
  /** Repository-relative paths of the pictures it shows. */
  readonly pictures: readonly string[];
};

/** Turns every source into HTML. Links between Markdown files become links between pages. */
export function renderPages(sources: readonly GuideSource[]): RenderedPage[] {
  const nameByFile = new Map(sources.map(({ file, name }) => [file, name]));
  return sources.map((source) => renderPage(source, nameByFile));
}

function renderPage(source: GuideSource, nameByFile: ReadonlyMap<string, string>): RenderedPage {
  const headings: Heading[] = [];
  const sections: { heading: Heading; text: string; names: string[] }[] = [];
  const [links, pictures]: [string[], string[]] = [[], []];
  const anchors = new Map<string, number>();
  const marked = new Marked({
    // An address in a table of settings is an example, not a link.
    tokenizer: { url: () => undefined, autolink: () => undefined },
    renderer: {
      heading({ depth, tokens }: Tokens.Heading) {
        const text = plainText(tokens);
        const anchor = unique(anchorOf(text), anchors);
        headings.push({ depth, text, anchor });
        sections.push({ heading: { depth, text, anchor }, text: "", names: [] });
        const link = `<a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}${depth > 1 ? link : ""}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const target = targetOf(href, source.file, nameByFile);
        links.push(target);
        return `<a href="${escapeHtml(target)}">${this.parser.parseInline(tokens)}</a>`;
      },
      image({ href, text }: Tokens.Image) {
        const file = path.posix.join(path.posix.dirname(source.file), href);
        pictures.push(file);
        return `<img src="images/${escapeHtml(path.posix.basename(file))}" alt="${escapeHtml(text)}">`;
      },
      // Documents are text; the one mark of HTML they use breaks a line in a table.
      html: ({ text }: Tokens.HTML | Tokens.Tag) => (text === "<br>" ? text : escapeHtml(text)),
      // Both may be wider than the page: they scroll by themselves, by keyboard too.
      // The word after the language, as in "python main.py", names the file.
      code({ text, lang }: Tokens.Code) {
        const file = lang?.split(" ")[1];
        const name = file === undefined ? "" : `<p class="file">${escapeHtml(file)}</p>`;
        return `<div class="code">${name}<pre tabindex="0"><code>${escapeHtml(text)}</code></pre></div>\n`;
      },
      table({ header, rows }: Tokens.Table) {
        const row = (cells: readonly Tokens.TableCell[], tag: string): string =>
          `<tr>${cells.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("")}</tr>`;
        // A table without words in its head begins with its first row.
        const isHeaded = header.some(({ text }) => text.trim() !== "");
        const head = isHeaded ? `<thead>${row(header, "th")}</thead>` : "";
        const body = rows.map((cells) => row(cells, "td")).join("\n");
        sections.at(-1)?.names.push(...rows.flatMap(([first]) => nameIn(first?.tokens ?? [])));
        return `<div class="table" tabindex="0"><table>${head}<tbody>${body}</tbody></table></div>\n`;
      },
    },
  });
  const tokens = marked.lexer(source.markdown);
  let html = "";
  for (const token of tokens) {
    html += marked.parser([token]);
    const section = sections.at(-1);
    if (section && token.type !== "heading") section.text += `${plainText([token])} `;
  }
  const title = headings[0]?.text ?? source.file;
  return { ...source, title, html, headings, sections, links, pictures };
}

/** Where a link of a Markdown file leads in the guide; what is no page of it stays as it was written. */
function targetOf(href: string, from: string, nameByFile: ReadonlyMap<string, string>): string {
  if (/^(?:[a-z]+:|#)/.test(href)) return href;
  const [to = "", anchor] = href.split("#");
  const file = path.posix.join(path.posix.dirname(from), to).replace(/\/$/, "");
  const [folder, example] = file.split("/");
  if (folder === "examples" && example) return `${nameByFile.get("examples")}#${example}`;
  const name = nameByFile.get(file);
  if (name === undefined) return href;
  return anchor === undefined ? name : `${name}#${anchor}`;
}

type Token = {
  readonly type: string;
  readonly text?: string;
  readonly tokens?: readonly unknown[];
  readonly items?: readonly unknown[];
  readonly header?: readonly unknown[];
  readonly rows?: readonly (readonly unknown[])[];
};

/** The words of tokens without their marks. */
function plainText(tokens: readonly unknown[]): string {
  return (tokens as readonly Token[]).map(textOf).join("").trim();
}

function textOf({ text, tokens, items, header, rows }: Token): string {
  if (rows)
    return [header ?? [], ...rows]
      .map((cells) => cells.map((cell) => `${plainText([cell])} `).join(""))
      .join("");
  if (items) return items.map((item) => `${plainText([item])} `).join("");
  if (tokens) return tokens.map((token) => textOf(token as Token)).join("");
  return text === undefined || text === "<br>" ? " " : text;
}

/** The name in code that is all of a table's cell, in lower case. */
function nameIn([token, ...more]: readonly unknown[]): string[] {
  const { type, text } = (token ?? {}) as Partial<Token>;
  return type === "codespan" && more.length === 0 && text !== undefined ? [text.toLowerCase()] : [];
}

/** The anchor that Git hosts give a heading, so that the same links work there. */
function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
}

function unique(anchor: string, known: Map<string, number>): string {
  const count = known.get(anchor) ?? 0;
  known.set(anchor, count + 1);
  return count === 0 ? anchor : `${anchor}-${count}`;
}

/** The text as HTML shows it, also within an attribute. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
