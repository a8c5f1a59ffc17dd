import path from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { Links } from "../../../src/identity/links.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { sharedBrowser } from "../../support/browser.ts";
import { OWNER, builtDashboard, openPage, signIn } from "../../support/dashboard-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const webDir = await builtDashboard();
const service = sharedService({}, {}, { webDir });
const browser = sharedBrowser();

const SECOND = { email: "second@example.test", password: "another long password" } as const;
const isIn = (page: Page) => page.getByRole("navigation", { name: "Project" }).waitFor();
const inDialog = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name });

verifies(
  ["dashboard.set-up", "dashboard.sign-in", "dashboard.settings"],
  "the link makes the owner, who invites somebody, makes a project, and changes the password",
  async () => {
    const { baseUrl, owner } = service().service;
    const seal = new Seal(loadMasterKey(path.join(service().settings.dataDir, "master.key")));
    const link = `${baseUrl}/setup#${new Links(seal, systemClock).setup()}`;
    const { page, complaints } = await openPage(browser(), {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.goto(link);
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill(OWNER.password);
    await page.getByRole("button", { name: "Create the owner" }).click();
    await isIn(page);

    // The link is shown once, and whoever has it joins with an account of their own.
    await page.getByRole("link", { name: "Settings", exact: true }).click();
    await page.getByRole("button", { name: "Invite somebody" }).click();
    await page.getByRole("dialog").getByLabel("E-mail").fill(SECOND.email);
    await inDialog(page, "Invite").click();
    await page.getByText("It is shown this once").waitFor();
    const inviteUrl = await page.getByRole("region", { name: "Invitation link" }).innerText();
    await inDialog(page, "I have copied it").click();
    const guest = await openPage(browser());
    await guest.page.goto(inviteUrl);
    await guest.page.getByRole("heading", { name: "Join default" }).waitFor();
    await guest.page.getByLabel("Password").fill(SECOND.password);
    await guest.page.getByRole("button", { name: "Sign up and join" }).click();
    await isIn(guest.page);
    await page.reload();
    await page.getByText("No open invitations").waitFor();
    await guest.page.getByRole("link", { name: "Audit" }).click();
    await guest.page.getByText("For owners").waitFor();

    // A role is changed at once; who is taken out is out.
    await page.getByLabel(`Role of ${SECOND.email}`).selectOption("owner");
    await guest.page.reload();
    await guest.page.getByRole("cell", { name: "member.update" }).first().waitFor();
    await page.getByRole("button", { name: `Remove ${SECOND.email}` }).click();
    await inDialog(page, "Remove member").click();
    await page.getByText("is no longer in the project").waitFor();
    await guest.page.goto(baseUrl);
    await guest.page.getByText("You are in no project yet").waitFor();

    await page.getByRole("button", { name: "Create project" }).click();
    await page.getByLabel("Name").fill("Second <i>project</i>");
    await inDialog(page, "Create project").click();
    await page.getByRole("link", { name: "Second <i>project</i>" }).waitFor();

    // Every other session ends with the old password.
    const other = await openPage(browser());
    await signIn(other.page, baseUrl, `/projects/${owner.projectId}/settings`);
    await page.reload();
    await page.getByText("A browser").nth(1).waitFor();
    await page.getByLabel("Current password").fill(OWNER.password);
    await page.getByLabel("New password").fill("quite another password");
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByText("The password is changed").waitFor();
    await other.page.reload();
    await other.page.getByRole("heading", { name: "Sign in" }).waitFor();

    // Back to where one wanted to go.
    await page.getByRole("complementary").getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.goto(`${baseUrl}/projects/${owner.projectId}/webhooks?state=failed`);
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill("quite another password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("No delivery is failed").waitFor();
    expect(new URL(page.url()).search).toBe("?state=failed");
    // The browser notes what the service refuses, as it should here: the old cookie, and none.
    expect(complaints.filter((text) => !text.includes("401"))).toEqual([]);
  },
);
