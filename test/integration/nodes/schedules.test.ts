import { expect } from "vitest";
import type { ScheduleRecord } from "../../../src/shapes/schedules.ts";
import { asOwner } from "../../support/as-owner.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { pair } from "./pair.ts";

const MAIN = `
import time

def run():
    return 1

def hold():
    while True:
        time.sleep(0.01)
`;
const each = (keys: string): string => `[[schedules]]\nname = "each"\ncron = "* * * * * *"\n${keys}\n`;

const nodes = pair({
  steady: { main: MAIN, toml: each('overlap = "queue"') },
  eager: { main: MAIN, toml: each('function = "hold"\noverlap = "cancel"') },
});

type Listed = { readonly items: { readonly id: string; readonly status: string }[] };

/** Asks a node about an app's schedule, or has it do something with it. */
async function ask(on: TestService, app: string, method: string, body?: object): Promise<ScheduleRecord> {
  const { projectId } = on.service.owner;
  const url = `/v2/projects/${projectId}/apps/${projectId}-${app}/schedules/each`;
  const { token } = nodes.first.service.owner;
  return (await asOwner(on)<{ item: ScheduleRecord }>(method, url, body, token)).item;
}

async function runsOf(app: string): Promise<Listed["items"]> {
  const { projectId } = nodes.first.service.owner;
  const url = `/v2/projects/${projectId}/apps/${projectId}-${app}/runs?pageSize=500`;
  return (await asOwner(nodes.first)<Listed>("GET", url)).items;
}

verifies("schedules.once", "of two nodes, one fires a time, and the app's owner runs it", async () => {
  const { owner, other } = await nodes.sides("steady");
  await until("it has fired", async () => (await runsOf("steady")).length >= 5);
  const paused = await ask(other, "steady", "PATCH", { paused: true });
  expect(paused).toMatchObject({ paused: true, nextTimes: [] });
  const hasEnded = async () => (await runsOf("steady")).every(({ status }) => status === "success");
  await until("all runs have ended", hasEnded);
  const { store } = owner.service;
  const appNumber = owner.apps.get("steady")?.app.number ?? nodes.first.apps.get("steady")!.app.number;
  const started = await Promise.all(
    (await runsOf("steady")).map(({ id }) => store.schedules.ofRun({ appNumber, id })),
  );
  const times = started.map((by) => by!.at);
  expect([new Set(times).size, times.filter((at) => at % 1_000 !== 0)]).toEqual([times.length, []]);
});

verifies("schedules.cancel", "a run is cancelled by the node that executes it, whichever fires", async () => {
  const cancelled = async () => (await runsOf("eager")).filter(({ status }) => status === "cancelled");
  await until("two were cancelled", async () => (await cancelled()).length >= 2);
  await ask(nodes.second, "eager", "PATCH", { paused: true });
  const open = async () => (await runsOf("eager")).filter(({ status }) => status !== "cancelled");
  await until("the last one is left", async () => (await open()).length === 1);
  const [last] = await open();
  await nodes.first.call("eager", "", { functionName: `runs/${last!.id}/cancel` });
  await until("it has ended", async () => (await open()).length === 0);
});
