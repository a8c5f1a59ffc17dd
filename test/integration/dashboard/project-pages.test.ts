import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Page } from "playwright-core";
import { Webhook } from "standardwebhooks";
import { beforeAll, expect } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { OWNER, builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { MODES, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };
const webDir = await builtDashboard();
const service = sharedService({ hello: HELLO }, { webhookAllow: "127.0.0.0/8" }, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

async function open(place: string): Promise<{ page: Page; complaints: string[] }> {
  const { baseUrl, owner } = service().service;
  const { page, complaints } = await openPage(browser());
  await signIn(page, baseUrl, `/projects/${owner.projectId}/${place}`);
  return { page, complaints };
}

const inDialog = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name });

verifies(
  ["dashboard.webhooks", "dashboard.audit"],
  "a delivery that failed is looked at and sent again, one and a span; secrets are rotated; the audit knows it",
  async () => {
    const target = await WebhookTarget.open(MODES[410]);
    const { page, complaints } = await open("webhooks");
    await page.getByText("No deliveries yet").waitFor();
    await page.getByRole("button", { name: "Create secret" }).click();
    const secret = await page.getByRole("region", { name: "Secret" }).innerText();
    await inDialog(page, "I have copied it").click();

    const hook = `?async=true&webhookEndpoint=${encodeURIComponent(`${target.url}/hook?<b>`)}`;
    const { run_id: runId } = (await service().call("hello", {}, { suffix: hook })).json as {
      run_id: string;
    };
    const row = page.getByRole("row").filter({ hasText: `hello …${runId.slice(-8)}` });
    await row.getByText("failed").waitFor();
    await page.getByLabel("State").selectOption("delivered");
    await page.getByText("No delivery is delivered").waitFor();
    await page.getByLabel("State").selectOption("failed");
    await row.getByRole("link", { name: target.url }).click();
    await page.getByText("The receiver did not answer with 2xx.").waitFor();

    target.behave = MODES.ok;
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("heading", { name: "Attempt 2" }).waitFor();
    await page.getByText("delivered", { exact: true }).waitFor();
    await page.getByText("Headers that were sent").first().click();
    await page.getByText("webhook-signature").first().waitFor();

    await page.getByRole("link", { name: "All deliveries" }).click();
    await page.getByRole("button", { name: "Send a span again" }).click();
    await page.getByText("1 delivery will be sent again.").waitFor();
    await inDialog(page, "Send 1 again").click();
    await page.getByText("1 delivery is sent again.").waitFor();
    await target.has(3);
    const { headers, body } = target.received[2]!;
    expect(new Webhook(secret).verify(String(body), headers as Record<string, string>)).toBeDefined();

    await page.getByRole("button", { name: /^Retire/ }).click();
    await inDialog(page, "Retire secret").click();
    await page.getByText("None yet").waitFor();

    await page.getByRole("link", { name: "Audit" }).click();
    const entry = page.getByRole("row").filter({ hasText: "webhook-secret.delete" });
    await entry.getByText(OWNER.email).waitFor();
    await entry.getByRole("link", { name: "Show" }).click();
    await page.waitForURL(/entry=\d+/);
    await page.getByText("− id:").waitFor();
    await page.reload();
    await page.getByText("− id:").waitFor();
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.files",
  "files go up in parts and come down again, into folders, by dropping; one can be stopped; deleting asks first",
  async () => {
    const { page, complaints } = await open("files");
    const bytes = Buffer.alloc(9 * 1024 * 1024, "millrace ");
    const picker = page.getByLabel("Files to upload");
    const file = async (name: string): Promise<string> => {
      const place = path.join(service().directory, name);
      await writeFile(place, bytes);
      return place;
    };
    await page.getByText("No files yet").waitFor();
    await picker.setInputFiles(await file("model <b>.bin"));
    const row = page.getByRole("row").filter({ hasText: "model <b>.bin" });
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      row.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(saved.suggestedFilename()).toMatch(/^model .b.\.bin$/);
    expect(bytes.equals(await readFile(await saved.path()))).toBe(true);

    // One that is there already is replaced only when asked; one that is stopped leaves nothing.
    await picker.setInputFiles(await file("model <b>.bin"));
    await inDialog(page, "Keep it").click();
    await page.route("**/v2/volumes/parts/**", () => {});
    await picker.setInputFiles(await file("stopped.bin"));
    await page.getByRole("progressbar", { name: "Upload of stopped.bin" }).waitFor();
    await page.getByRole("button", { name: "Cancel the upload of stopped.bin" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    await page.unroute("**/v2/volumes/parts/**");

    await page.getByRole("button", { name: "New folder" }).click();
    await page.getByLabel("Name").fill("weights");
    await inDialog(page, "Go to the folder").click();
    await page.getByText("Nothing in this folder").waitFor();
    const dropped = await page.evaluateHandle(`
      const data = new DataTransfer();
      data.items.add(new File(["small"], "dropped.txt"));
      data.items.add(new File([], "empty.txt"));
      data;
    `);
    await page.getByText("Nothing in this folder").dispatchEvent("drop", { dataTransfer: dropped });
    await page.getByRole("cell", { name: "dropped.txt", exact: true }).waitFor();
    await page.getByRole("cell", { name: "empty.txt", exact: true }).waitFor();
    await page.reload();
    await page.getByRole("cell", { name: "dropped.txt", exact: true }).waitFor();

    await page.getByRole("navigation", { name: "Folder" }).getByRole("link", { name: "storage" }).click();
    await page.getByRole("button", { name: "Delete weights" }).click();
    await inDialog(page, "Delete folder").click();
    await page.getByText("weights is deleted.").waitFor();
    expect(await page.getByRole("cell", { name: /weights|stopped/ }).count()).toBe(0);
    await row.waitFor();
    expect(complaints).toEqual([]);
  },
);
