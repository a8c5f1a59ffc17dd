import type { Page } from "playwright-core";
import { expect } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { upload } from "../../support/dashboard-data.ts";
import { card, type OpenedPage, OWNER, sharedDashboard } from "../../support/dashboard-site.ts";
import { hiddenOnPage } from "../../support/page-text.ts";
import { verifies } from "../../verifies.ts";

/** Looks like a picture, and is a program. */
const TURNED = "photo\u202Egpj.exe";
const INVISIBLE = "pay\u200Bp\uFEFFal\u{E0041}";
const HEBREW = "דוח Q3 (סופי).pdf";
const DEPTH = 3_000;
const MAIN = `
def run(text=""):
    print(text)
    return {"text": text}

def nested():
    import sys
    sys.setrecursionlimit(20_000)
    value = []
    for _ in range(${DEPTH} - 1):
        value = [value]
    return value
`;

const { service, open } = sharedDashboard({ echo: { main: MAIN } });

/** The page of the run that was answered with these headers, once its output is there. */
async function openRun(headers: Headers): Promise<OpenedPage> {
  await service().service.settle();
  const opened = await open(`/apps/echo/runs/${headers.get("x-request-id")}`, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await opened.page.getByRole("region", { name: "Output", exact: true }).waitFor();
  return opened;
}

/** What Copy in a card has put on the clipboard. */
async function copied(page: Page, title: string): Promise<string> {
  await page.evaluate("navigator.clipboard.writeText('')");
  const button = card(page, title).getByRole("button", { name: "Copy", exact: true });
  await button.click();
  await card(page, title).getByText("Copied", { exact: true }).waitFor();
  return await page.evaluate<string>("navigator.clipboard.readText()");
}

verifies(
  "dashboard.visible",
  "names that mislead are seen for what they are in lists, dialogs and titles; right-to-left names stay as they are",
  async () => {
    const ask = asOwner(service());
    const { accessToken } = await ask<{ accessToken: string }>("POST", "/v2/session", OWNER);
    await ask("POST", "/v2/projects", { name: INVISIBLE }, accessToken);
    await upload(service(), TURNED, Buffer.from("x"));
    await upload(service(), HEBREW, Buffer.from("x"));
    const { page, complaints } = await open("/files");
    const row = page.getByRole("row").filter({ hasText: "exe" });
    await row.getByText("photo").waitFor();
    expect(await row.locator("td").first().innerText()).toBe("photoU+202Egpj.exe");
    expect(await row.getByTitle("photo<U+202E>gpj.exe").count()).toBe(1);
    expect(await page.getByRole("combobox", { name: "Project" }).innerText()).toContain(
      "pay<U+200B>p<U+FEFF>al<U+E0041>",
    );
    const isolated =
      "[...document.querySelectorAll('main bdi')].map((name) => [name.textContent, getComputedStyle(name).direction])";
    expect(await page.evaluate(isolated)).toEqual([[HEBREW, "rtl"]]);
    expect(await hiddenOnPage(page)).toEqual([]);

    await page.getByRole("button", { name: "Delete photo<U+202E>gpj.exe", exact: true }).click();
    await page.getByRole("dialog").getByText("photo").waitFor();
    expect(await hiddenOnPage(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.visible",
  "a run's page shows what its texts hide, keeps their lines, and copies them as they are",
  async () => {
    const text = `${TURNED}\n\tnext\u001B[31m ${INVISIBLE}`;
    const { headers } = await service().call("echo", { text });
    const { page, complaints } = await openRun(headers);
    const output = page.getByRole("region", { name: "Output", exact: true });
    expect(await output.innerText()).toContain("photoU+202Egpj.exe");
    await page.getByRole("list", { name: "Logs", exact: true }).getByText("photo").waitFor();
    expect(await hiddenOnPage(page)).toEqual([]);
    expect(await copied(page, "Output")).toContain(`"text": ${JSON.stringify(text)}`);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.hostile",
  "a result of 3,000 nested lists takes a few kilobytes of a run's page, and is there to be copied",
  async () => {
    const { headers, text } = await service().call("echo", {}, { functionName: "nested" });
    expect(text).toContain("[".repeat(DEPTH) + "]".repeat(DEPTH));
    const { page, complaints } = await openRun(headers);
    const output = page.getByRole("region", { name: "Output", exact: true });
    const shown = (await output.textContent()) ?? "";
    expect(shown.length).toBeLessThan(2 * text.length);
    expect(shown.replaceAll(/\s/g, "")).toBe(text);
    expect(await copied(page, "Output")).toBe(shown);
    expect(complaints).toEqual([]);
  },
);
