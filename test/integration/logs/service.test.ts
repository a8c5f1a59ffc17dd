import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { appId } from "../../../src/model/names.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { type LineRecord, Tail } from "./site.ts";

test("a service keeps what its apps print, also over a restart of theirs, and serves it at its base URL", async () => {
  const main = 'print("at import")\ndef run(word):\n    print(word)\n';
  const site = await testService({ app: { main, toml: "[scaling]\ncooldown = 0\n" } });
  const { baseUrl, owner } = site.service;
  const id = appId(owner.projectId, "app");
  const lines = async (): Promise<string[]> => {
    const response = await fetch(
      `${baseUrl}/v2/projects/${owner.projectId}/apps/${id}/logs?direction=forward`,
      {
        headers: { authorization: `Bearer ${owner.token}` },
      },
    );
    return ((await response.json()) as { logs: LineRecord[] }).logs.map(({ logLine }) => logLine);
  };
  const query = new URLSearchParams({ projectID: owner.projectId, token: owner.token, appID: id });
  const tail = new Tail(new WebSocket(`${baseUrl.replace("http", "ws")}/ws-logs?${query.toString()}`));
  await tail.opened;
  for (const word of ["one", "two", "three"]) {
    await site.call("app", { word });
    await until("the line is in the log", async () => (await lines()).includes(word));
    await until("the line was sent", () => tail.logs.includes(word));
  }
  expect((await lines()).filter((line) => line !== "at import")).toEqual(["one", "two", "three"]);
  await tail.close();
});
