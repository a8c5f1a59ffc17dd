import { type Browser, chromium } from "playwright-core";
import { beforeAll } from "vitest";
import { placeOf } from "./made.ts";

let launching: Promise<Browser> | null = null;

/**
 * One real Chromium for all test files of this process: it ends with it. Tests have contexts of their own in it. It
 * asks nothing of the world outside.
 */
export function sharedBrowser(): () => Browser {
  let browser: Browser | undefined;
  beforeAll(async () => {
    const last = await launching?.catch(() => null);
    // One that broke is not for the next file.
    browser = last?.isConnected() ? last : await (launching = launch());
  });
  return () => {
    if (!browser) throw new Error("the browser is not started yet");
    return browser;
  };
}

async function launch(): Promise<Browser> {
  return await chromium.launch({
    executablePath: await placeOf("chromium"),
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
    timeout: 0,
  });
}
