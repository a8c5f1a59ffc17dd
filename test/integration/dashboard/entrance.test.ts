import path from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { Links } from "../../../src/identity/links.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { sharedBrowser } from "../../support/browser.ts";
import {
  OWNER,
  dialogField,
  inDialog,
  openPage,
  placeLink,
  says,
  sharedDashboardService,
  signIn,
  thereAre,
} from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const service = sharedDashboardService();
const browser = sharedBrowser();

const SECOND = { email: "second@example.test", password: "another long password" } as const;
const isIn = (page: Page) => page.getByRole("navigation", { name: "Project" }).waitFor();
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

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
    await button(page, "Create the owner").click();
    await isIn(page);

    // The link is shown once, and whoever has it joins with an account of their own.
    await placeLink(page, "Settings").click();
    await button(page, "Invite somebody").click();
    await dialogField(page, "E-mail").fill(SECOND.email);
    await inDialog(page, "Invite").click();
    await page.getByText("It is shown only once").waitFor();
    const inviteUrl = await page.getByRole("region", { name: "Invitation link", exact: true }).innerText();
    await inDialog(page, "I have copied it").click();
    const guest = await openPage(browser());
    await guest.page.goto(inviteUrl);
    await guest.page.getByRole("heading", { name: "Join default" }).waitFor();
    await guest.page.getByLabel("Password").fill(SECOND.password);
    await button(guest.page, "Sign up and join").click();
    await isIn(guest.page);
    await page.reload();
    await page.getByText("No open invitations").waitFor();
    await placeLink(guest.page, "Audit").click();
    await guest.page.getByText("For owners", { exact: true }).waitFor();

    // A role is changed at once; who is taken out is out.
    const role = page.getByLabel(`Role of ${SECOND.email}`, { exact: true });
    await says(page, `${SECOND.email} is owner now.`, async () => {
      await role.selectOption("owner");
    });
    await guest.page.reload();
    await guest.page.getByRole("cell", { name: "member.update" }).first().waitFor();
    await button(page, `Remove ${SECOND.email}`).click();
    await says(page, "is no longer in the project", () => inDialog(page, "Remove member").click());
    await guest.page.goto(baseUrl);
    await guest.page.getByText("You are not in any project yet").waitFor();

    await button(page, "Create project").click();
    await dialogField(page, "Name").fill("Second <i>project</i>");
    await inDialog(page, "Create project").click();
    // It is the current one now.
    await page.waitForURL((url) => !url.pathname.includes(owner.projectId));
    await page.goto(`${baseUrl}/projects/${owner.projectId}/settings`);
    await page.getByRole("link", { name: "Second <i>project</i>", exact: true }).waitFor();

    // Every other session ends with the old password.
    const other = await openPage(browser());
    await signIn(other.page, baseUrl, `/projects/${owner.projectId}/settings`);
    await page.reload();
    await thereAre(2, page.getByRole("region", { name: "Sessions" }).getByText("A browser"));
    await page.getByLabel("Current password", { exact: true }).fill(OWNER.password);
    await page.getByLabel("New password", { exact: true }).fill("quite another password");
    await says(page, "The password is changed", () => button(page, "Change password").click());
    await other.page.reload();
    await other.page.getByRole("heading", { name: "Sign in" }).waitFor();

    // Back to where one wanted to go.
    await page.getByRole("complementary").getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.goto(`${baseUrl}/projects/${owner.projectId}/webhooks?state=failed`);
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill("quite another password");
    await button(page, "Sign in").click();
    await page.getByText("No delivery is failed").waitFor();
    expect(new URL(page.url()).search).toBe("?state=failed");
    // The browser notes what the service refuses, as it should here: the old cookie, and none.
    expect(complaints.filter((text) => !text.includes("401"))).toEqual([]);
  },
);
