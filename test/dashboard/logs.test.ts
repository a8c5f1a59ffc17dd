import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { addressOf, sharedDashboard, thereAre } from "../support/dashboard-site.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const TALKER = {
  main: `
import sys

def run(text, count=1):
    for number in range(count):
        print(text.replace("#", str(number)))

def complain(text):
    print(text, file=sys.stderr)
`,
};
const LOGS = "/apps/talker/logs";

const { service, open } = sharedDashboard({ talker: TALKER });

verifies(
  "dashboard.logs",
  "a log is followed as it is printed, searched, narrowed to a stream and a run, paused, read back and saved",
  async () => {
    const say = async (body: object, functionName = "run"): Promise<string> =>
      (await service().call("talker", body, { functionName })).json.run_id as string;
    await say({ text: "old line #.", count: 700 });
    const { page, complaints } = await open(LOGS);
    const lines = page.getByRole("region", { name: "Log lines", exact: true });
    const line = (text: string) => lines.getByText(text, { exact: true });
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    // By their roles: each line has a link to its run, which is named so.
    const field = (name: string) => page.getByRole("searchbox", { name, exact: true });

    // The newest are there, only some of them in the page; the rest on demand.
    await line("old line 699.").waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(await lines.getByText("old line").count()).toBeLessThan(350);
    await lines.evaluate((box) => void Object.assign(box, { scrollTop: 0 }));
    await line("old line 200.").waitFor();
    await button("Load older").click();
    await until("the rest is loaded", async () => {
      await lines.evaluate((box) => void Object.assign(box, { scrollTop: 0 }));
      return await line("old line 0.").isVisible();
    });

    // Whoever reads further up is not disturbed.
    await say({ text: "while reading" });
    await button("Follow (1 new)").click();
    await line("while reading").waitFor();

    // What comes is shown as text, without what is meant for a terminal.
    await say({ text: "\u001B[31mred\u001B[0m <b>bold</b>" });
    await line("red <b>bold</b>").waitFor();
    const faultId = await say({ text: "gone wrong" }, "complain");
    await line("gone wrong").waitFor();
    await button("Pause").click();
    await say({ text: "not yet" });
    await button("Follow (1 new)").waitFor();
    expect(await line("not yet").count()).toBe(0);

    // The filters are in the address, and hold for what comes.
    await field("Search").fill("BOLD");
    await page.waitForURL(/search=BOLD/);
    await line("red <b>bold</b>").waitFor();
    await say({ text: "plain" });
    await say({ text: "bolder" });
    await line("bolder").waitFor();
    await thereAre(2, lines.getByRole("link"));
    await page.goto(addressOf(service(), `${LOGS}?stream=stderr`));
    await line("gone wrong").waitFor();
    await say({ text: "elsewhere" });
    await say({ text: "wrong again" }, "complain");
    await line("wrong again").waitFor();
    await thereAre(2, lines.getByRole("link"));
    await page.getByRole("combobox", { name: "Stream", exact: true }).selectOption("both");
    await field("Run").fill(faultId);
    await page.waitForURL(new RegExp(`runId=${faultId}`));
    await thereAre(1, lines.getByRole("link"));

    const [saved] = await Promise.all([page.waitForEvent("download"), button("Download").click()]);
    expect(await readFile(await saved.path(), "utf8")).toMatch(/^\S+Z gone wrong\n$/);
    await lines.getByRole("link", { name: `Run ${faultId}`, exact: true }).click();
    await page.waitForURL(`**/apps/talker/runs/${faultId}`);
    expect(complaints).toEqual([]);
  },
);
