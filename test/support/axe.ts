import axe from "axe-core";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

/** What has been changed is laid out two frames later, and has its colours when they have changed over. */
const DRAWN = `(async () => {
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
  const changing = document.getAnimations().filter((one) => one instanceof CSSTransition);
  await Promise.allSettled(changing.map(({ finished }) => finished));
})()`;
/**
 * The rows of a table are alike, and the contrast of each text takes its time: a second of a processor for 50 runs. The
 * shade at a table's side would leave it unjudged.
 */
const SHORTER = `(() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("tbody tr:nth-child(n + 11) { display: none } .scrolls-sideways { background: none }");
  document.adoptedStyleSheets = [sheet];
})()`;
const AS_IT_WAS = "(() => { document.adoptedStyleSheets = []; })()";

/** `npm run test:dashboard`, which judges every state of every page. */
const IS_WHOLE = process.env["MILLRACE_DASHBOARD_WHOLE"] === "true";

/** Waits until a page is drawn as it is going to stay. */
export async function drawn(page: Page): Promise<void> {
  await page.evaluate(DRAWN);
}

/** What another size or other colours can make wrong with a page. The rest was looked at before: it takes as long again. */
const OF_LOOKS = [
  "aria-hidden-focus",
  "button-name",
  "color-contrast",
  "link-in-text-block",
  "link-name",
  "scrollable-region-focusable",
];

/**
 * What is seriously wrong with a page for those who do not see it or have no mouse, each fault with where it is; of one
 * that was looked at before, what its looks have changed.
 */
export async function seriousFaults(page: Page, { isAgain = false } = {}): Promise<string[]> {
  if (!(await page.evaluate<boolean>("typeof axe === 'object'"))) await page.evaluate(axe.source);
  await page.evaluate(SHORTER);
  await drawn(page);
  const options = { resultTypes: ["violations"], ...(isAgain && { runOnly: OF_LOOKS }) };
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${JSON.stringify(options)})`);
  await page.evaluate(AS_IT_WAS);
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/** The same of a page in some state, for who asks for the dashboard alone. */
export async function faultsOfState(page: Page): Promise<string[]> {
  return IS_WHOLE ? await seriousFaults(page) : [];
}
