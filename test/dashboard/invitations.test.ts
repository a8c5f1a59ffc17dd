import type { Page } from "playwright-core";
import { afterAll, expect } from "vitest";
import { asOwner } from "../support/as-owner.ts";
import { SkippingClock } from "../support/clocks.ts";
import {
  OWNER,
  dialogField,
  inDialog,
  isWhole,
  openPage,
  pathOf,
  says,
  sharedDashboard,
} from "../support/dashboard-site.ts";
import { MailServer } from "../support/mail-server.ts";
import { verifies } from "../verifies.ts";

const mail = await MailServer.openShared();
const clock = new SkippingClock();
const flags = { smtpUrl: mail.url, smtpFrom: "no-reply@millrace.example" };
const { service, browser, open } = sharedDashboard({}, flags, { clock });
afterAll(() => mail.close());

const GUEST = { email: "guest@example.test", password: "the words of a guest" } as const;
const isIn = (page: Page) => page.getByRole("navigation", { name: "Project" }).waitFor();
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const field = (page: Page, label: string) => page.getByLabel(label, { exact: true });

/** The link in the next mail to that address that comes after so many. */
async function linkTo(to: string, after = 0): Promise<string> {
  clock.skip(2_000);
  const { text } = await mail.mailTo(to, after);
  return /https?:\/\/\S+/.exec(text)?.[0] ?? "";
}

verifies(
  ["dashboard.invitations", "dashboard.address"],
  "an invitation is mailed, joined and revoked; an address is proven, and a forgotten password replaced",
  async () => {
    const { baseUrl } = service().service;
    const settings = pathOf(service(), "/settings");
    const { page, complaints } = await open("/settings");

    // By mail: the inviter sees no link.
    await button(page, "Invite somebody").click();
    await dialogField(page, "E-mail").fill(GUEST.email);
    await says(page, `An invitation is on its way to ${GUEST.email}`, () => inDialog(page, "Invite").click());
    await button(page, `Revoke the invitation for ${GUEST.email}`).waitFor();
    const guest = (await openPage(browser())).page;
    await guest.goto(await linkTo(GUEST.email));
    expect(await field(guest, "E-mail").inputValue()).toBe(GUEST.email);
    await field(guest, "Password").fill(GUEST.password);
    await button(guest, "Sign up and join").click();
    await isIn(guest);
    await guest.goto(baseUrl + settings);
    // The mail has proven it; who is no owner sees no invitations.
    await guest.getByText("verified", { exact: true }).waitFor();
    await isWhole(guest);
    expect(await guest.getByText("Invitations").count()).toBe(0);

    // Signed in: with the account one has. Signed out: with one that is signed in to there.
    const ask = asOwner(service());
    const { accessToken } = await ask<{ accessToken: string }>("POST", "/v2/session", OWNER);
    const second = await ask<{ id: string }>("POST", "/v2/projects", { name: "second one" }, accessToken);
    const invite = async () => {
      const url = `/v2/projects/${second.id}/invitations`;
      const body = { email: GUEST.email, role: "owner" };
      return (await ask<{ inviteUrl: string }>("POST", url, body, accessToken)).inviteUrl;
    };
    await guest.goto(await invite());
    await guest.getByRole("heading", { name: "Join second one" }).waitFor();
    await guest.getByText(GUEST.email).waitFor();
    await button(guest, "Join as owner").click();
    await isIn(guest);
    expect(new URL(guest.url()).pathname).toBe(`/projects/${second.id}`);
    await guest.goto(await invite());
    await button(guest, "Use another account").click();
    await field(guest, "E-mail").fill(OWNER.email);
    await field(guest, "Password").fill(OWNER.password);
    await button(guest, "Sign in").click();
    await guest.getByText(OWNER.email).waitFor();
    await button(guest, "Join as owner").click();
    await isIn(guest);

    // Revoked, a link says so.
    await button(page, "Invite somebody").click();
    await dialogField(page, "E-mail").fill("other@example.test");
    await dialogField(page, "How to send it").selectOption("link");
    await inDialog(page, "Invite").click();
    await page.getByText("It is shown only once").waitFor();
    const revoked = await page.getByRole("region", { name: "Invitation link" }).innerText();
    await inDialog(page, "I have copied it").click();
    await button(page, "Revoke the invitation for other@example.test").click();
    await page.getByText("No open invitations").waitFor();
    const stranger = (await openPage(browser())).page;
    await stranger.goto(revoked);
    await stranger.getByText("This invitation does not work").waitFor();

    // The owner proves their address, where they are signed in.
    await says(page, "A link is on its way", () => button(page, "Mail me a link").click());
    const proof = await linkTo(OWNER.email);
    await stranger.goto(proof);
    await field(stranger, "E-mail").fill(GUEST.email);
    await field(stranger, "Password").fill(GUEST.password);
    await button(stranger, "Sign in").click();
    await button(stranger, "This address is mine").click();
    await stranger.getByText("The link is invalid").waitFor();
    await page.goto(proof);
    await button(page, "This address is mine").click();
    await page.getByText("Your address is verified").waitFor();

    // And has a new password sent there.
    await stranger.goto(`${baseUrl}/sign-in`);
    await stranger.getByRole("link", { name: "Forgot your password?" }).click();
    await stranger.getByRole("heading", { name: "Forgot your password?" }).waitFor();
    await field(stranger, "E-mail").fill(OWNER.email);
    await button(stranger, "Mail me a link").click();
    await stranger.getByText("Check your mail").waitFor();
    await stranger.goto(await linkTo(OWNER.email, 1));
    await field(stranger, "Password").fill("quite another password");
    await button(stranger, "Set password").click();
    await isIn(stranger);

    // Who runs the installation makes a link for who has no mail.
    await stranger.goto(baseUrl + settings);
    await button(stranger, `Password link for ${GUEST.email}`).click();
    const link = await stranger.getByRole("region", { name: "Password link" }).innerText();
    expect(link).toMatch(/\/password#[\w-]+$/);
    await inDialog(stranger, "I have copied it").click();

    // A wrong password is sent once: sent again it would count as two.
    const sent: string[] = [];
    stranger.on("request", (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await field(stranger, "New address").fill("moved@example.test");
    await field(stranger, "Your password").fill("not the password");
    await button(stranger, "Change address").click();
    await stranger.getByText("Your password is wrong.").waitFor();
    expect(sent.filter((line) => line === "POST /v2/me/email")).toHaveLength(1);
    await field(stranger, "Your password").fill("quite another password");
    await button(stranger, "Change address").click();
    await stranger.getByText("not verified", { exact: true }).first().waitFor();
    expect(complaints.filter((text) => !/status of (401|403)/.test(text))).toEqual([]);
  },
);
