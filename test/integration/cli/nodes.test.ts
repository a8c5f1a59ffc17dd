import { expect } from "vitest";
import { VERSION } from "../../../src/config/package-files.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const shared = sharedService({}, { nodeName: "self" });

verifies("nodes.cli", "nodes lists every node, and drains one by its name or id", async () => {
  const client = new Client(shared());
  const { store } = shared().service;
  const { owner, url } = await sampleNode(store, { name: "other", runs: 7 });
  const [heading, other, self] = (await client.ok("nodes")).split("\n");
  expect(heading).toMatch(/^ +NAME +NODE +ADDRESS +STATE +APPS +RUNS +SINCE +RELEASE$/);
  expect(other?.trim().split(/ {2,}/)).toEqual([
    "other",
    owner,
    url,
    "live",
    "0",
    "7",
    expect.any(String),
    "1.2.3",
  ]);
  expect(self).toMatch(new RegExp(`^\\* +self .* - +live +0 +0 .* ${VERSION.replaceAll(".", "\\.")}$`));
  const [drained, listed, back, gone] = await client.runAll([
    ["nodes", "drain", "other"],
    ["nodes", "list", "--json"],
    ["nodes", "drain", owner, "--undo"],
    ["nodes", "drain", "nosuch"],
  ]);
  expect(drained).toMatchObject({ code: 0, stdout: "other hands its apps over and takes no more.\n" });
  expect(JSON.parse(listed?.stdout ?? "")).toMatchObject([{ state: "leaving" }, { state: "live" }]);
  expect(back).toMatchObject({ code: 0, stdout: "other takes apps again.\n" });
  expect([gone?.code, gone?.stderr]).toEqual([2, expect.stringContaining('there is no node "nosuch"')]);
});
