import { searchGuide } from "./search.ts";
import type { Found, IndexedSection } from "./search.ts";

let loading: Promise<readonly IndexedSection[]> | null = null;

/** The index is fetched when somebody first wants to search, and asked for again if that failed. */
async function sections(): Promise<readonly IndexedSection[]> {
  loading ??= fetch("search.json").then((response) => response.json() as Promise<IndexedSection[]>);
  try {
    return await loading;
  } catch (error) {
    loading = null;
    throw error;
  }
}

/** Makes the search field work: results below it as somebody types, arrows to choose, Enter to go. */
export function attachSearch(input: HTMLInputElement, list: HTMLElement): void {
  let chosen = 0;
  const show = (found: readonly Found[]): void => {
    list.replaceChildren(...found.map(resultOf));
    if (found.length === 0) list.append(nothing());
    list.hidden = false;
    input.ariaExpanded = "true";
    choose(0);
  };
  const close = (): void => {
    list.hidden = true;
    input.ariaExpanded = "false";
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (index: number): void => {
    const options = [...list.querySelectorAll("a")];
    chosen = options.length === 0 ? 0 : (index + options.length) % options.length;
    for (const [i, option] of options.entries()) option.ariaSelected = String(i === chosen);
    const current = options[chosen];
    if (!current) return;
    input.setAttribute("aria-activedescendant", current.id);
    current.scrollIntoView({ block: "nearest" });
  };
  const search = async (): Promise<void> => {
    const query = input.value;
    if (query.trim() === "") return close();
    const known = await sections();
    // Somebody may have typed on meanwhile.
    if (query === input.value) show(searchGuide(known, query));
  };
  input.addEventListener("focus", () => void sections().catch(() => {}));
  input.addEventListener("input", () => void search().catch(() => close()));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") close();
    if (list.hidden) return;
    if (step !== undefined) {
      event.preventDefault();
      choose(chosen + step);
    } else if (event.key === "Enter") {
      list.querySelectorAll("a")[chosen]?.click();
    }
  });
  list.addEventListener("click", () => close());
  document.addEventListener("click", ({ target }) => {
    if (target !== input && !list.contains(target as Node)) close();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
  });
}

/** A link, so that it opens in another tab as links do. */
function resultOf({ url, title, excerpt }: Found, index: number): HTMLElement {
  const link = document.createElement("a");
  link.role = "option";
  link.id = `found-${index}`;
  link.href = url;
  link.tabIndex = -1;
  const text = made("span", "");
  text.append(...excerpt.map((piece) => (piece.isMatch ? made("mark", piece.text) : piece.text)));
  link.append(made("strong", title), text);
  return link;
}

function nothing(): HTMLElement {
  const option = made("div", "Nothing matches.");
  option.role = "option";
  option.ariaDisabled = "true";
  return option;
}

function made(tag: string, text: string): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
