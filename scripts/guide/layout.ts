import { escapeHtml, type RenderedPage } from "./render.ts";
import { DECISIONS } from "./sources.ts";

const SEARCH_ICON = `<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="11" cy="11" r="6.5"/><path d="m16 16 4.5 4.5"/></svg>`;
const MENU_ICON = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 7h16M4 12h16M4 17h16"/></svg>`;
const COLOURS_ICON = `<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="8"/><path d="M12 4a8 8 0 0 1 0 16z" fill="currentColor"/></svg>`;

/** A whole page: the rendered text with the sidebar, the search and the way to its neighbours. Nothing is inline. */
export function layOut(page: RenderedPage, pages: readonly RenderedPage[]): string {
  const place = pages.indexOf(page);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="guide.css">
<script src="theme.js"></script>
<script type="module" src="guide.js"></script>
<title>${escapeHtml(page.title)} · Millrace</title>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<button type="button" id="menu" aria-expanded="false" aria-controls="sidebar" aria-label="Menu">${MENU_ICON}</button>
<a class="mark" href="index.html"><img src="mark.svg" alt="">Millrace <span>guide</span></a>
<div class="search" role="search">
${SEARCH_ICON}
<input id="search" type="search" role="combobox" aria-label="Search the guide" aria-expanded="false" aria-controls="found" aria-autocomplete="list" autocomplete="off" placeholder="Search">
<kbd aria-hidden="true">/</kbd>
<div id="found" role="listbox" aria-label="Results" hidden></div>
</div>
<nav aria-label="Service"><a href="/docs">API reference</a><a href="/">Dashboard</a></nav>
<button type="button" id="colours" aria-label="Change colours">${COLOURS_ICON}</button>
</header>
<div class="columns">
<nav id="sidebar" aria-label="Guide">
${sidebar(page, pages)}
</nav>
<main id="content" tabindex="-1">
<article>
${page.html}</article>
<nav class="neighbours" aria-label="Neighbours">${neighbour("Previous", pages[place - 1])}${neighbour("Next", pages[place + 1])}</nav>
</main>
${contents(page)}
</div>
</body>
</html>
`;
}

/** The groups and their pages. A group of one page is that page; decisions are folded away. */
function sidebar(page: RenderedPage, pages: readonly RenderedPage[]): string {
  const groups = [...Map.groupBy(pages, ({ group }) => group)];
  return groups
    .map(([group, members]) => {
      const links = members.map((member) => {
        const current = member === page ? ' aria-current="page"' : "";
        return `<li><a href="${member.name}"${current}>${escapeHtml(member.label ?? member.title)}</a></li>`;
      });
      const list = `<ul>${links.join("\n")}</ul>`;
      if (group === DECISIONS)
        return `<details${page.group === group ? " open" : ""}><summary>${group}</summary>\n${list}</details>`;
      if (members.length === 1) return list.replace("<ul>", '<ul class="alone">');
      return `<h2>${escapeHtml(group)}</h2>\n${list}`;
    })
    .join("\n");
}

/** The page's own headings, where there is room and more than one. */
function contents({ headings }: RenderedPage): string {
  const listed = headings.filter(({ depth }) => depth === 2);
  if (listed.length < 2) return "";
  const links = listed.map(({ anchor, text }) => `<li><a href="#${anchor}">${escapeHtml(text)}</a></li>`);
  return `<nav class="contents" aria-label="On this page"><h2>On this page</h2>\n<ul>${links.join("\n")}</ul></nav>`;
}

function neighbour(label: string, page: RenderedPage | undefined): string {
  if (!page) return "<span></span>";
  return `<a href="${page.name}"><small>${label}</small> ${escapeHtml(page.title)}</a>`;
}
