import chromium from "@sparticuz/chromium";
import { chromium as playwright } from "playwright-core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";

/** One real Chromium for the tests of a file. It asks nothing of the world outside. */
export function sharedBrowser(): () => Browser {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await playwright.launch({
      executablePath: await chromium.executablePath(),
      // Not the package's own arguments: those turn the browser's security off, which is tested here.
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        // Other sites, and pages that come without HTTPS from another machine: names like other.test are this one.
        "--host-resolver-rules=MAP *.test 127.0.0.1",
      ],
      headless: true,
    });
  });
  afterAll(async () => {
    await browser?.close();
  });
  return () => {
    if (!browser) throw new Error("the browser is not started yet");
    return browser;
  };
}
