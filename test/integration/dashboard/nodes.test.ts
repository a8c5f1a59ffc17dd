import { expect, onTestFinished } from "vitest";
import { systemClock } from "../../../src/kit/clock.ts";
import { asOwner } from "../../support/as-owner.ts";
import { addressOf, inDialog, openPage, placeLink, sharedDashboard } from "../../support/dashboard-site.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { verifies } from "../../verifies.ts";

const { service, browser, open } = sharedDashboard({}, { nodeName: "self" });

verifies("nodes.dashboard", "the operator sees every node, and what becomes of it", async () => {
  const { store } = service().service;
  const other = await sampleNode(store, { name: "<b>other</b>", runs: 1234 });
  // Its lease is for a minute, and a browser may take longer on a busy machine.
  const renewal = systemClock.every(10_000, () => void store.nodes.renew(other));
  onTestFinished(() => renewal.cancel());
  const { page, complaints } = await open("/runs");
  await placeLink(page, "Nodes").click();
  const row = page.getByRole("row", { name: "<b>other</b>" });
  await row.getByText("1,234", { exact: true }).waitFor();
  await row.getByText("https://192.0.2.7:4200", { exact: true }).waitFor();
  const self = page.getByRole("row", { name: "self this one live" });
  await self.getByText("alone", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Drain <b>other</b>", exact: true }).click();
  await inDialog(page, "Drain").click();
  await row.getByText("leaving", { exact: true }).waitFor();
  await store.nodes.setLeaving({ id: other.owner, isLeaving: false });
  await row.getByText("live", { exact: true }).waitFor();
  expect(complaints).toEqual([]);
});

verifies("nodes.dashboard", "a member of a project has no way to the page, and is told why", async () => {
  const { baseUrl, owner } = service().service;
  const guest = { email: "guest@example.test", password: "a long enough password" };
  const invitations = `/v2/projects/${owner.projectId}/invitations`;
  const made = await asOwner(service())<{ inviteUrl: string }>("POST", invitations, { email: guest.email });
  const signUp = await fetch(`${baseUrl}/v2/invitation/sign-up`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ link: made.inviteUrl.split("#")[1], ...guest }),
  });
  expect(signUp.status).toBe(200);
  const { page } = await openPage(browser());
  await page.goto(addressOf(service(), "/nodes"));
  await page.getByLabel("E-mail").fill(guest.email);
  await page.getByLabel("Password").fill(guest.password);
  await page.keyboard.press("Enter");
  await page.getByText("Only the operator can do this").waitFor();
  await page.getByText(guest.email, { exact: true }).waitFor();
  expect(await placeLink(page, "Settings").count()).toBe(1);
  expect(await placeLink(page, "Nodes").count()).toBe(0);
});
