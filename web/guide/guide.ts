import { copyText } from "../parts/copy-text.ts";
import { attachSearch } from "./search-box.ts";

/** How long a button says that something was copied. */
const COPIED_MS = 1_500;

/** Gives each block of code a button that copies it. */
function addCopyButtons(): void {
  for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.ariaLive = "polite";
    const say = (text: string): void => {
      button.textContent = text;
      setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
    };
    button.addEventListener("click", () => {
      copyText(block.querySelector("code")?.textContent ?? "").then(
        () => say("Copied"),
        () => say("Select it and copy by hand"),
      );
    });
    block.append(button);
  }
}

/** On a narrow screen the sidebar is behind a button. */
function attachMenu(button: HTMLElement): void {
  button.addEventListener("click", () => {
    const isOpen = document.body.classList.toggle("menu-open");
    button.ariaExpanded = String(isOpen);
  });
}

/** The same choice as the dashboard's: `theme.js` takes it up before the first paint. */
function attachColours(button: HTMLElement): void {
  button.addEventListener("click", () => {
    const isDark = document.documentElement.classList.toggle("dark");
    localStorage.setItem("theme", isDark ? "dark" : "light");
  });
}

function part(id: string): HTMLElement {
  return document.querySelector<HTMLElement>(`#${id}`)!;
}

addCopyButtons();
attachMenu(part("menu"));
attachColours(part("colours"));
attachSearch(part("search") as HTMLInputElement, part("found"));
document.querySelector("#sidebar [aria-current]")?.scrollIntoView({ block: "nearest" });
