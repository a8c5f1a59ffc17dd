import axe from "axe-core";
import type { Page } from "playwright-core";
import { beforeAll, expect } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const GREETER = `
from typing import Literal, Optional

def run(name: str, times: int = 1, tone: Literal["warm", "cold"] = "warm", loud: bool = False,
        extra: Optional[list] = None):
    """Greets somebody.

    As often as wanted."""
    print("greeting", name)
    if name == "nobody":
        raise ValueError("<b>nobody</b> is there")
    return {"text": f"Hello, {name}" * times, "tone": tone, "loud": loud}

def count(upto: int = 3):
    import time
    for number in range(upto):
        yield f"Number {number}"
        time.sleep(0.2)

def forever():
    import time
    number = 0
    while True:
        yield f"tick {number}"
        number += 1
        time.sleep(0.1)
`;

const webDir = await builtDashboard();
const service = sharedService({ greeter: { main: GREETER } }, { webhookAllow: "127.0.0.0/8" }, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

/** Answers that say no, which runs that failed have too, the browser complains about by itself. */
function isOurs(complaint: string): boolean {
  return !complaint.startsWith("Failed to load resource");
}

/** What is seriously wrong with a page for those who do not see it. */
async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run();
    return violations.map(({ id, impact, nodes }) => ({ id, impact, where: nodes[0]?.html.slice(0, 200) }));
  });
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, where }) => `${id}: ${where}`);
}

verifies(
  ["dashboard.runs", "dashboard.async-mark", "dashboard.run-state"],
  "runs appear as they come, and are narrowed by state, mode, function and time, all of it in the address",
  async () => {
    const { baseUrl, owner } = service().service;
    const { page, complaints } = await openPage(browser());
    await service().call("greeter", { name: "Ada" });
    await service().call("greeter", { name: "nobody" });
    await service().call("greeter", { upto: 1 }, { functionName: "count" });
    await service().service.settle();
    await signIn(page, baseUrl, `/projects/${owner.projectId}/runs`);
    const rows = page.getByRole("row").filter({ has: page.getByRole("link") });
    await expect.poll(() => rows.count()).toBe(3);

    await service().call("greeter", { name: "Grace" }, { suffix: "?async=true" });
    const mine = rows.filter({ hasText: "async" });
    await mine.getByText("success").waitFor();
    expect(await rows.count()).toBe(4);

    await page.getByLabel("State").selectOption("failure");
    await expect.poll(() => rows.count()).toBe(1);
    expect(await rows.innerText()).toMatch(/failure[\s\S]*500/);
    expect(new URL(page.url()).search).toBe("?status=failure");
    await page.getByLabel("Mode").selectOption("async");
    await page.getByText("No run is like that").waitFor();
    await page.getByRole("button", { name: "Show all runs" }).click();
    await page.getByLabel("Function").fill("count");
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByLabel("Time").selectOption("15m");
    await expect.poll(() => new URL(page.url()).search).toBe("?function=count&from=15m");
    await expect.poll(() => rows.count()).toBe(1);
    await page.reload();
    await expect.poll(() => rows.count()).toBe(1);
    expect(await page.getByLabel("Function").inputValue()).toBe("count");
    await page.getByRole("button", { name: "Clear" }).click();
    await expect.poll(() => rows.count()).toBe(4);
    expect(await seriousFaults(page)).toEqual([]);

    await rows.filter({ hasText: "async" }).getByRole("link").click();
    await page.getByRole("heading", { name: "greeter · run" }).waitFor();
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);

verifies(
  "dashboard.run-page",
  "a run's page shows its timeline, input, error, logs and deliveries, follows a stream, and cancels it",
  async () => {
    const { baseUrl, owner } = service().service;
    const { page, complaints } = await openPage(browser());
    const target = await WebhookTarget.open();
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const failed = await service().call("greeter", { name: "nobody" }, { suffix });
    const place = `/projects/${owner.projectId}/apps/greeter/runs/`;
    await signIn(page, baseUrl, place + failed.json.run_id);
    await page.getByText("ValueError: <b>nobody</b> is there").first().waitFor();
    await page
      .getByRole("region", { name: "Traceback" })
      .getByText(/line \d+, in run/)
      .waitFor();
    await page.getByRole("region", { name: "Input" }).getByText('"name": "nobody"').waitFor();
    await page.getByRole("list", { name: "Logs" }).getByText("greeting nobody").waitFor();
    await page.getByRole("list", { name: "The run" }).getByText("Running").waitFor();
    await page.getByRole("list", { name: "Deliveries" }).getByText("answered 204").waitFor();
    expect(await seriousFaults(page)).toEqual([]);

    const endless = await service().call("greeter", {}, { functionName: "forever", suffix: "?async=true" });
    await page.goto(`${baseUrl}${place}${endless.json.run_id}`);
    const output = page.getByRole("log", { name: "Output" });
    await output.getByText("tick 3").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel run" }).click();
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    expect(await page.getByRole("button", { name: "Cancel", exact: true }).count()).toBe(0);
    expect(await service().ofRun("greeter", endless.json.run_id)).toMatchObject({
      json: { status: "cancelled" },
    });

    const { json } = await service().call("greeter", { name: "Ada" });
    await page.goto(`${baseUrl}${place}${json.run_id}`);
    await page.getByRole("region", { name: "Output" }).getByText("Hello, Ada").waitFor();
    await page.getByRole("button", { name: "Run again" }).click();
    await expect.poll(() => page.getByLabel("name").inputValue()).toBe("Ada");
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);

verifies(
  "dashboard.playground",
  "a function is called from a form made of its signature, with JSON in step, and streams as they arrive",
  async () => {
    const { baseUrl, owner } = service().service;
    const { page, complaints } = await openPage(browser());
    await signIn(page, baseUrl, `/projects/${owner.projectId}/apps/greeter/playground`);
    const send = page.getByRole("button", { name: "Call run" });
    await send.click();
    await page.getByText("This is required.").waitFor();
    await page.getByLabel("name").fill('Ada "the first"');
    await page.getByLabel("times").fill("2");
    await page.getByLabel("tone").selectOption("cold");
    await page.getByLabel("loud").selectOption("true");
    await page.getByRole("button", { name: "JSON", exact: true }).click();
    const json = page.getByLabel("Arguments as JSON");
    expect(JSON.parse(await json.inputValue())).toEqual({
      name: 'Ada "the first"',
      times: 2,
      tone: "cold",
      loud: true,
    });
    await json.fill('{"name": "Grace", "times": 3}');
    await page.getByRole("button", { name: "Form", exact: true }).click();
    expect(await page.getByLabel("times").inputValue()).toBe("3");
    await send.click();
    await page.getByRole("region", { name: "Answer" }).getByText("Hello, GraceHello, Grace").waitFor();
    await page.getByRole("button", { name: "Python" }).click();
    await page
      .getByRole("region", { name: "The call as code" })
      .getByText('millrace.run("greeter", {')
      .waitFor();
    expect(await seriousFaults(page)).toEqual([]);

    await page.getByLabel("Function").selectOption("count");
    await page.getByLabel("upto").fill("500");
    await page.getByRole("button", { name: "Call count" }).click();
    await page.getByRole("log", { name: "Answer" }).getByText("Number 1").waitFor();
    await page.getByText("still coming").waitFor();
    await page.getByRole("link", { name: "Open the run" }).click();
    // Who leaves gives the call up.
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);
