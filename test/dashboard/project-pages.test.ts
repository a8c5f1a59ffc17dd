import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { Webhook } from "standardwebhooks";
import { expect } from "vitest";
import { OWNER, dialogField, inDialog, placeLink, says, sharedDashboard } from "../support/dashboard-site.ts";
import { MODES, WebhookTarget } from "../support/webhook-target.ts";
import { verifies } from "../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };

const { service, open } = sharedDashboard({ hello: HELLO }, { webhookAllow: "127.0.0.0/8" });

verifies(
  ["dashboard.webhooks", "dashboard.audit"],
  "a delivery that failed is looked at and sent again, one and a span; secrets are rotated; the audit knows it",
  async () => {
    const target = await WebhookTarget.open(MODES[410]);
    const { page, complaints } = await open("/webhooks");
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    await page.getByText("No deliveries yet", { exact: true }).waitFor();
    await button("Create secret").click();
    const secret = await page.getByRole("region", { name: "Secret", exact: true }).innerText();
    await inDialog(page, "I have copied it").click();

    const hook = `?async=true&webhookEndpoint=${encodeURIComponent(`${target.url}/hook?<b>`)}`;
    const { run_id: runId } = (await service().call("hello", {}, { suffix: hook })).json as {
      run_id: string;
    };
    const row = page.getByRole("row").filter({ hasText: `hello …${runId.slice(-8)}` });
    await row.getByText("failed", { exact: true }).waitFor();
    const state = page.getByRole("combobox", { name: "State", exact: true });
    await state.selectOption("delivered");
    await page.getByText("No delivery is delivered", { exact: true }).waitFor();
    await state.selectOption("failed");
    await row.getByRole("link", { name: target.url }).click();
    await page.getByText("The receiver did not answer with 2xx.").waitFor();

    target.behave = MODES.ok;
    await button("Send again").click();
    const attempt = page
      .getByRole("listitem")
      .filter({ has: page.getByRole("heading", { name: "Attempt 2" }) });
    await attempt.getByText("Headers that were sent", { exact: true }).click();
    await attempt.getByText("webhook-signature", { exact: true }).waitFor();
    await page.getByText("delivered", { exact: true }).waitFor();

    await page.getByRole("link", { name: "All deliveries", exact: true }).click();
    await button("Resend a time span").click();
    await page.getByText("1 delivery will be sent again.", { exact: true }).waitFor();
    await says(page, "1 delivery is sent again.", () => inDialog(page, "Send 1 again").click());
    await target.has(3);
    const { headers, body } = target.received[2]!;
    expect(new Webhook(secret).verify(String(body), headers as Record<string, string>)).toBeDefined();

    await page.getByRole("button", { name: /^Retire/ }).click();
    await inDialog(page, "Retire secret").click();
    await page.getByText("None yet. Create one").waitFor();

    await placeLink(page, "Audit").click();
    const entry = page.getByRole("row").filter({ hasText: "webhook-secret.delete" });
    await entry.getByText(OWNER.email).waitFor();
    await entry.getByRole("link", { name: /^Show webhook-secret\.delete of / }).click();
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
    const { page, complaints } = await open("/files");
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    const cell = (name: string) => page.getByRole("cell", { name, exact: true });
    const bytes = Buffer.alloc(9 * 1024 * 1024, "millrace ");
    const picker = page.getByLabel("Files to upload", { exact: true });
    const file = async (name: string): Promise<string> => {
      const place = path.join(service().directory, name);
      await writeFile(place, bytes);
      return place;
    };
    await page.getByText("No files yet", { exact: true }).waitFor();
    await picker.setInputFiles(await file("model <b>.bin"));
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      button("Download model <b>.bin").click(),
    ]);
    expect(saved.suggestedFilename()).toMatch(/^model .b.\.bin$/);
    expect(bytes.equals(await readFile(await saved.path()))).toBe(true);

    // One that is there already is replaced only when asked; one that is stopped leaves nothing.
    await picker.setInputFiles(await file("model <b>.bin"));
    await inDialog(page, "Cancel").click();
    await page.route("**/v2/volumes/parts/**", () => {});
    await picker.setInputFiles(await file("stopped.bin"));
    await page.getByRole("progressbar", { name: "Upload of stopped.bin", exact: true }).waitFor();
    await button("Cancel the upload of stopped.bin").click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    await page.unroute("**/v2/volumes/parts/**");

    await button("New folder").click();
    await dialogField(page, "Name").fill("weights");
    await inDialog(page, "Go to the folder").click();
    const empty = page.getByText("Nothing in this folder", { exact: true });
    await empty.waitFor();
    const dropped = await page.evaluateHandle(`
      const data = new DataTransfer();
      data.items.add(new File(["small"], "dropped.txt"));
      data.items.add(new File([], "empty.txt"));
      data;
    `);
    await empty.dispatchEvent("drop", { dataTransfer: dropped });
    await cell("dropped.txt").waitFor();
    await cell("empty.txt").waitFor();
    await page.reload();
    await cell("dropped.txt").waitFor();

    const folder = page.getByRole("navigation", { name: "Folder", exact: true });
    await folder.getByRole("link", { name: "storage", exact: true }).click();
    await button("Delete weights").click();
    await says(page, "Deleted weights.", () => inDialog(page, "Delete folder").click());
    await cell("weights").waitFor({ state: "detached" });
    await cell("model <b>.bin").waitFor();
    expect(await cell("stopped.bin").count()).toBe(0);
    expect(complaints).toEqual([]);
  },
);
