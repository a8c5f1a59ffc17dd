import { expect } from "vitest";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { faultsOfState } from "../../support/axe.ts";
import { addressOf, card, inDialog, sharedDashboard, thereAre } from "../../support/dashboard-site.ts";
import { sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
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

const { service, open } = sharedDashboard({ greeter: { main: GREETER } }, { webhookAllow: "127.0.0.0/8" });

/** Answers that say no, which runs that failed have too, the browser complains about by itself. */
function isOurs(complaint: string): boolean {
  return !complaint.startsWith("Failed to load resource");
}

verifies(
  ["dashboard.runs", "dashboard.async-mark", "dashboard.run-state"],
  "runs appear as they come, and are narrowed by state, mode, function and time, all of it in the address",
  async () => {
    await service().call("greeter", { name: "Ada" });
    await service().call("greeter", { name: "nobody" });
    await service().call("greeter", { upto: 1 }, { functionName: "count" });
    await service().service.settle();
    const { page, complaints } = await open("/runs");
    const rows = page.getByRole("row").filter({ has: page.getByRole("link") });
    const choice = (name: string) => page.getByRole("combobox", { name, exact: true });
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    const functionField = page.getByRole("textbox", { name: "Function", exact: true });
    const narrowedTo = async (search: string): Promise<void> =>
      await page.waitForURL((url) => url.search === search);
    await thereAre(3, rows);

    await service().call("greeter", { name: "Grace" }, { suffix: "?async=true" });
    const mine = rows.filter({ has: page.getByText("async", { exact: true }) });
    await mine.getByText("success", { exact: true }).waitFor();
    await thereAre(4, rows);

    await choice("State").selectOption("failure");
    await thereAre(1, rows);
    expect(await rows.innerText()).toMatch(/failure[\s\S]*500/);
    await narrowedTo("?status=failure");
    await choice("Mode").selectOption("async");
    await page.getByText("No runs match", { exact: true }).waitFor();
    await button("Show all runs").click();
    await functionField.fill("count");
    await narrowedTo("?function=count");
    await thereAre(1, rows);
    await choice("Time").selectOption("15m");
    await narrowedTo("?function=count&from=15m");
    await thereAre(1, rows);
    await page.reload();
    await thereAre(1, rows);
    expect(await functionField.inputValue()).toBe("count");
    await button("Clear").click();
    await thereAre(4, rows);
    expect(await faultsOfState(page)).toEqual([]);

    await mine.getByRole("link").click();
    await page.getByRole("heading", { name: "greeter · run", exact: true }).waitFor();
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);

verifies("dashboard.runs", "a filter that is chosen while another is typed stays", async () => {
  await service().call("greeter", { name: "nobody" });
  await service().service.settle();
  const { page } = await open("/runs");
  const state = page.getByRole("combobox", { name: "State", exact: true });
  await state.waitFor();
  // Both in one turn of the page: long before the typed text is taken up.
  await page.evaluate(`(() => {
      const set = (element, value, kind) => {
        Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), "value").set.call(element, value);
        element.dispatchEvent(new Event(kind, { bubbles: true }));
      };
      const labelled = (text) => [...document.querySelectorAll("label")].find((label) => label.textContent === text).control;
      set(labelled("Function"), "run", "input");
      set(labelled("State"), "failure", "change");
    })()`);
  await page.waitForURL((url) => url.searchParams.get("function") === "run");
  expect(new URL(page.url()).searchParams.get("status")).toBe("failure");
});

verifies(
  ["dashboard.run-page", "dashboard.failed-run"],
  "a run's page shows its timeline, batch, input, error, logs and deliveries, follows a stream, and cancels it",
  async () => {
    const target = await WebhookTarget.open();
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const failed = await service().call("greeter", { name: "nobody" }, { suffix });
    const { page, complaints } = await open(`/apps/greeter/runs/${failed.json.run_id}`);
    const region = (name: string) => page.getByRole("region", { name, exact: true });
    const list = (name: string) => page.getByRole("list", { name, exact: true });
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    await card(page, "Error").getByText("ValueError: <b>nobody</b> is there", { exact: true }).waitFor();
    await page.getByText("The run failed, so there is no result").waitFor();
    expect(await region("Traceback").innerText()).not.toMatch(/^ValueError/m);
    await card(page, "Facts")
      .getByRole("link", { name: /^1, build/ })
      .waitFor();
    await card(page, "Facts").getByRole("link", { name: /^r-/ }).waitFor();
    await region("Traceback")
      .getByText(/line \d+, in run/)
      .waitFor();
    await region("Input").getByText('"name": "nobody"').waitFor();
    await list("Logs").getByText("greeting nobody", { exact: true }).waitFor();
    await list("The run").getByText("Running", { exact: true }).waitFor();
    await list("Deliveries").getByText("answered 204", { exact: true }).waitFor();
    expect(await faultsOfState(page)).toEqual([]);

    const endless = await service().call("greeter", {}, { functionName: "forever", suffix: "?async=true" });
    await page.goto(addressOf(service(), `/apps/greeter/runs/${endless.json.run_id}`));
    await page
      .getByRole("log", { name: "Output", exact: true })
      .getByText("tick 3", { exact: true })
      .waitFor();
    await button("Cancel").click();
    await inDialog(page, "Cancel run").click();
    await list("The run").getByText("Cancelled", { exact: true }).waitFor();
    await button("Cancel").waitFor({ state: "detached" });
    expect(await service().ofRun("greeter", endless.json.run_id)).toMatchObject({
      json: { status: "cancelled" },
    });

    const { json } = await service().call("greeter", { name: "Ada" });
    await page.goto(addressOf(service(), `/apps/greeter/runs/${json.run_id}`));
    await region("Output").getByText("Hello, Ada").waitFor();
    await button("Run again").click();
    const name = page.getByRole("textbox", { name: /^name\b/ });
    await until("the run's input is filled in", async () => (await name.inputValue()) === "Ada");

    const { projectId } = service().service.owner;
    const { store } = service().service;
    const { number: appNumber } = (await store.apps.find({ projectId, name: "greeter" }))!;
    const batched = sampleRun({ appNumber, batchSize: 32, batchReason: "full" });
    await store.runs.insertFinished([packEnded([sampleEnd(batched)])]);
    await page.goto(addressOf(service(), `/apps/greeter/runs/${batched.id}`));
    await list("The run").getByText("Left in a batch of 32: full", { exact: true }).waitFor();
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);

verifies("dashboard.async-playground", "an async call shows its result when the run has ended", async () => {
  const { page } = await open("/apps/greeter/playground?mode=async");
  await page.getByLabel(/^name/).fill("Ada");
  await page.getByRole("button", { name: "Call run", exact: true }).click();
  const answer = page.getByRole("region", { name: "Result", exact: true });
  await answer.getByText("Hello, Ada").waitFor();
  await page.getByLabel(/^name/).fill("nobody");
  await page.getByRole("button", { name: "Call run", exact: true }).click();
  await answer.getByText("is there").waitFor();
  expect(await faultsOfState(page)).toEqual([]);
});

verifies(
  "dashboard.playground",
  "a function is called from a form made of its signature, with JSON in step, and streams as they arrive",
  async () => {
    const { page, complaints } = await open("/apps/greeter/playground");
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    /** The field of an argument; its type follows in the label. */
    const argument = (name: string) => page.getByLabel(new RegExp(`^${name}`));
    await button("Call run").click();
    await page.getByText("This is required.", { exact: true }).waitFor();
    await argument("name").fill('Ada "the first"');
    await argument("times").fill("2");
    await argument("tone").selectOption("cold");
    await argument("loud").selectOption("true");
    await button("JSON").click();
    const json = page.getByLabel("Arguments as JSON", { exact: true });
    expect(JSON.parse(await json.inputValue())).toEqual({
      name: 'Ada "the first"',
      times: 2,
      tone: "cold",
      loud: true,
    });
    await json.fill('{"name": "Grace", "times": 3}');
    await button("Form").click();
    expect(await argument("times").inputValue()).toBe("3");
    await button("Call run").click();
    const answer = page.getByRole("region", { name: "Answer", exact: true });
    await answer.getByText("Hello, GraceHello, Grace").waitFor();
    await button("Python").click();
    const code = page.getByRole("region", { name: "The call as code", exact: true });
    await code.getByText('millrace.run("greeter", {').waitFor();
    expect(await faultsOfState(page)).toEqual([]);

    await page.getByRole("combobox", { name: "Function", exact: true }).selectOption("count");
    await argument("upto").fill("500");
    await button("Call count").click();
    await page
      .getByRole("log", { name: "Answer", exact: true })
      .getByText("Number 1", { exact: true })
      .waitFor();
    await page.getByText("still coming").waitFor();
    await page.getByRole("link", { name: "Open the run", exact: true }).click();
    // Who leaves gives the call up.
    await page
      .getByRole("list", { name: "The run", exact: true })
      .getByText("Cancelled", { exact: true })
      .waitFor();
    expect(complaints.filter(isOurs)).toEqual([]);
  },
);
