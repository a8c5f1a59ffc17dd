import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { seriousFaults } from "../support/axe.ts";
import { card, isWhole, sharedDashboard, thereAre } from "../support/dashboard-site.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { socketApp } from "../support/servers/socket-app.ts";
import { verifies } from "../verifies.ts";

const { service, open } = sharedDashboard({
  web: serverApp({
    runtime: 'readycheck_endpoint = "/readyz"',
    toml: "[scaling]\nreplica_concurrency = 4\n",
  }),
  talk: socketApp("[scaling]\nreplica_concurrency = 4\n"),
});

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const answer = (page: Page) => page.getByRole("region", { name: "Answer", exact: true });
const code = (page: Page) => page.getByRole("region", { name: "The call as code", exact: true });

/** What is wrong with a page as it is, light on a desk and dark on a phone. */
async function faultsOf(page: Page): Promise<string[]> {
  const light = await seriousFaults(page);
  const size = page.viewportSize() ?? { width: 1280, height: 800 };
  await page.evaluate("document.documentElement.classList.add('dark')");
  await page.setViewportSize({ width: 390, height: 844 });
  const dark = await seriousFaults(page, { isAgain: true });
  const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
  const isWide = (await page.evaluate<number>(sideways)) > 0;
  await page.evaluate("document.documentElement.classList.remove('dark')");
  await page.setViewportSize(size);
  return [...light, ...dark, ...(isWide ? ["it scrolls sideways"] : [])];
}

verifies(
  "dashboard.server-playground",
  "a server is sent any request, and answers with JSON, events, bytes or a text without end",
  async () => {
    const { page, complaints } = await open("/apps/web/playground");
    const send = async (method: string, path: string): Promise<void> => {
      await page.getByRole("combobox", { name: "Method", exact: true }).selectOption(method);
      await page.getByLabel("Path", { exact: true }).fill(path);
      await button(page, `Send ${method}`).click();
    };
    await page.getByLabel("Headers", { exact: true }).fill("X-Own: yes\nno header");
    await page.getByText("Line 2 is not a header.").waitFor();
    await page.getByLabel("Headers", { exact: true }).fill("X-Own: yes");
    await page.getByRole("combobox", { name: "Method", exact: true }).selectOption("PUT");
    await page.getByLabel("Body", { exact: true }).fill('{"it\'s": 1}');
    await send("PUT", "some/path?a=%20&status=418");
    await answer(page).waitFor();
    const told = JSON.parse(await answer(page).innerText()) as Told;
    expect(told).toMatchObject({ method: "PUT", path: "/some/path?a=%20&status=418", body: '{"it\'s": 1}' });
    const sent = new Map(told.headers.map(([name, value]) => [name.toLowerCase(), value]));
    expect([sent.get("x-own"), sent.get("content-type")]).toEqual(["yes", "application/json"]);
    await card(page, "Answer").getByText("418", { exact: true }).waitFor();
    await card(page, "Answer")
      .getByText(/^\d+ headers$/)
      .click();
    // One that the server sent itself.
    await card(page, "Answer").getByText("BaseHTTP", { exact: false }).waitFor();
    // The command does the same.
    const { stdout } = await promisify(execFile)("sh", ["-c", `${await code(page).innerText()} --silent`], {
      env: { ...process.env, MILLRACE_TOKEN: service().service.owner.token },
    });
    expect(JSON.parse(stdout)).toMatchObject({ method: "PUT", path: told.path, body: told.body });
    await button(page, "Python").click();
    await code(page).getByText('"X-Own": "yes",').waitFor();
    expect(await faultsOf(page)).toEqual([]);

    await send("GET", "/stream");
    const events = page.getByRole("log", { name: "Answer", exact: true }).getByRole("listitem");
    await thereAre(3, events);
    await send("GET", "/bytes?count=100000");
    await page.getByText("100 KB of application/octet-stream.").waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), button(page, "Download").click()]);
    expect((await stat(await download.path())).size).toBe(100_000);
    await send("GET", "/forever");
    await answer(page).getByText("more").waitFor();
    await page.getByText("still coming").waitFor();
    await button(page, "Stop").click();
    await page.getByText("stopped").waitFor();
    expect(complaints.filter((text) => !text.includes("status of 418"))).toEqual([]);
  },
);

verifies(
  ["dashboard.socket-console", "servers.clients"],
  "a WebSocket is opened, spoken to and closed, and its ends are told",
  async () => {
    const { page } = await open("/apps/talk/playground");
    await button(page, "WebSocket").click();
    const lines = page.getByRole("log", { name: "Messages", exact: true }).getByRole("listitem");
    const connect = async (path: string): Promise<void> => {
      await page.getByLabel("Path", { exact: true }).fill(path);
      await button(page, "Connect").click();
    };
    const say = async (text: string): Promise<void> => {
      await page.getByLabel("Message", { exact: true }).fill(text);
      await page.keyboard.press("Enter");
    };
    await connect("/hello?a=1");
    await lines.getByText("connected subprotocol millrace").waitFor();
    await lines.filter({ hasText: /received.*"url":"\/hello\?a=1"/ }).waitFor();
    await say("Good day");
    await thereAre(2, lines.filter({ hasText: "Good day" }));
    expect(await lines.filter({ hasText: /^\d\d:\d\d:\d\d\.\d{3}.*sent.*Good day$/ }).count()).toBe(1);
    expect(await faultsOf(page)).toEqual([]);
    await button(page, "Disconnect").click();
    await lines.getByText("closed 1000").waitFor();

    await page.getByLabel("Subprotocols", { exact: true }).fill("chat");
    await connect("/close");
    await lines.getByText("connected subprotocol chat").waitFor();
    await say("now");
    await lines.getByText("closed 4321 as you like").waitFor();
    await connect("/refused");
    await lines.getByText(/^not connected/).waitFor();
    await code(page).getByText("millrace.bearer.").waitFor();
  },
);

/** Opens a WebSocket, says something and waits for its end. */
async function closedSocket(path: string): Promise<void> {
  const { owner } = service().service;
  const url = service().url("talk", path).replace(/^http/, "ws");
  const socket = new WebSocket(url, ["millrace", `millrace.bearer.${owner.token}`]);
  socket.addEventListener("open", () => socket.send("now"));
  await new Promise<unknown>((resolve) => socket.addEventListener("close", resolve));
  await service().service.settle();
}

verifies(
  "dashboard.server-runs",
  "runs of a server show what was asked, what was answered and how much, and its page how it is started",
  async () => {
    await closedSocket("close");
    const { page, complaints } = await open("/apps/talk/runs");
    const socket = page.getByRole("row").filter({ hasText: "/close" }).first();
    await socket.getByText("WebSocket", { exact: true }).waitFor();
    await socket.getByText("101", { exact: true }).waitFor();
    // What the server sent is a close frame.
    await socket.getByText(/^\d+ B \/ 15 B$/).waitFor();
    await socket.getByRole("link").click();
    await page.getByRole("heading", { name: "talk · GET /close" }).waitFor();
    await card(page, "Facts").getByText("15 B", { exact: true }).waitFor();
    await page.getByText("What goes over a WebSocket is not stored.").waitFor();
    await button(page, "Run again").click();
    await button(page, "Connect").waitFor();
    expect(await page.getByLabel("Path", { exact: true }).inputValue()).toBe("/close");

    const streamed = await service().call("web", "a text", {
      functionName: "stream",
      headers: { "content-type": "text/plain" },
    });
    await service().service.settle();
    const runId = streamed.headers.get("x-request-id") ?? "";
    await page.goto(
      `${service().service.baseUrl}${new URL(page.url()).pathname.replace(/talk.*/, "web")}/runs/${runId}`,
    );
    await page.getByRole("region", { name: "Output", exact: true }).getByText("data: 2").waitFor();
    await isWhole(page);
    expect(await faultsOf(page)).toEqual([]);
    await button(page, "Run again").click();
    expect(await page.getByLabel("Body", { exact: true }).inputValue()).toBe("a text");
    expect(await page.getByLabel("Headers", { exact: true }).inputValue()).toBe("Content-Type: text/plain");
    await page.getByRole("link", { name: "Overview", exact: true }).last().click();
    await page.getByText("python main.py --port 8000", { exact: true }).waitFor();
    await page.getByText("/readyz", { exact: true }).waitFor();
    await page.getByText("Accepts connections", { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  },
);

type Told = {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: readonly (readonly [string, string])[];
};
