import type { Page } from "playwright-core";
import { hiddenIn } from "./hidden-characters.ts";

/** All that people read on a page: its texts, the attributes that are shown or read out, and the tab's title. Not what fields hold. */
const READ = `(() => {
  const texts = [document.title];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest("script, style, textarea")) texts.push(walker.currentNode.data);
  }
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      if (/^(title|alt|label|placeholder|aria-.*)$/.test(name)) texts.push(value);
    }
  }
  return texts;
})()`;

/** Characters on a page that nobody would see, or that turn its text around; each with the text it is in. */
export async function hiddenOnPage(page: Page): Promise<string[]> {
  const texts = await page.evaluate<string[]>(READ);
  return texts.flatMap((text) =>
    hiddenIn(text).map((code) => `${code} in ${JSON.stringify(text.slice(0, 100))}`),
  );
}
