import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { Links } from "../../src/identity/links.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../src/kit/seal.ts";
import { explains } from "./explain.ts";
import { REPOSITORY } from "./source-files.ts";
import type { TestService } from "./service.ts";

const VITE = path.join(REPOSITORY, "node_modules", "vite", "bin", "vite.js");

export const OWNER = { email: "owner@example.test", password: "a long enough password" } as const;

/** The folder of a dashboard built from the sources as they are now; built once for each state of them. */
export async function builtDashboard(): Promise<string> {
  const web = path.join(REPOSITORY, "web");
  const hash = createHash("sha256").update(await readFile(path.join(REPOSITORY, "package-lock.json")));
  for (const file of [...(await filesBelow(web)), ...(await filesBelow(path.join(REPOSITORY, "client")))]) {
    hash.update(`${path.relative(REPOSITORY, file)}\0`).update(await readFile(file));
  }
  const outDir = path.join(tmpdir(), `millrace-web-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(outDir)) return outDir;
  const aside = await mkdtemp(`${outDir}-`);
  // A process of its own: in this one, React would be built for tests.
  await promisify(execFile)(
    process.execPath,
    [VITE, "build", web, "--outDir", aside, "--emptyOutDir", "--logLevel", "error"],
    { env: { PATH: process.env["PATH"], NODE_ENV: "production" } },
  );
  // Another test may have been faster.
  await rename(aside, outDir).catch(() => rm(aside, { recursive: true, force: true }));
  return outDir;
}

async function filesBelow(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => path.join(parentPath, name)).toSorted();
}

/** Makes the first person of a service, as the set-up link would. */
export async function makeOwner({ service, settings }: TestService): Promise<void> {
  const seal = new Seal(loadMasterKey(path.join(settings.dataDir, "master.key")));
  const link = new Links(seal, systemClock).setup();
  const response = await fetch(`${service.baseUrl}/v2/setup`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ link, ...OWNER }),
  });
  if (!response.ok) throw new Error(`no owner: ${await response.text()}`);
}

/** A page of its own, with what the browser complained about; a test looks at that when it is over. */
export async function openPage(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; context: BrowserContext; complaints: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  // The test's own deadline is the only one.
  page.setDefaultTimeout(0);
  const complaints: string[] = [];
  const silence = explains(() => pictured(page, complaints));
  onTestFinished(async () => {
    silence();
    await context.close();
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  return { page, context, complaints };
}

/** What a page shows, as a picture in a file, and what the browser complained about. */
async function pictured(page: Page, complaints: readonly string[]): Promise<string> {
  const file = path.join(await mkdtemp(path.join(tmpdir(), "millrace-page-")), "page.png");
  await page.screenshot({ path: file, timeout: 10_000 });
  return [`${page.url()} looks like ${file}`, ...complaints].join("\n");
}

/** Signs the owner in, and waits for the dashboard. */
export async function signIn(page: Page, baseUrl: string, to = "/"): Promise<void> {
  await page.goto(`${baseUrl}/sign-in?to=${encodeURIComponent(to)}`);
  await page.getByLabel("E-mail").fill(OWNER.email);
  await page.getByLabel("Password").fill(OWNER.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Project" }).waitFor();
}
