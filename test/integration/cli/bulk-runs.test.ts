import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { ended, MAIN, submit } from "../async/site.ts";
import { Client } from "./client.ts";

const shared = sharedService({ tool: { main: MAIN } });

verifies("bulk.command", "runs are retried, listed as jobs, and deleted by conditions", async () => {
  const client = new Client(shared());
  const failed = await submit(shared(), "tool", { n: 1 }, { functionName: "fail" });
  const good = await submit(shared(), "tool", { n: 2 });
  for (const id of [failed, good]) await ended(shared(), "tool", id);
  // Without a terminal, the question has no answer.
  const asked = await client.run("runs", "retry", "tool", "--function", "fail");
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("Run again 1 run of tool?")]);
  const retried = await client.ok("runs", "retry", "tool", "--function", "fail", "--yes");
  expect(retried).toBe("1 run is running again.\n");
  expect(await client.ok("runs", "jobs", "tool")).toMatch(/retry +done +1 of 1 +0/);
  expect(await client.ok("runs", "delete", "tool", "--status", "success", "--yes")).toBe(
    "1 run is deleted.\n",
  );
  expect((await client.run("runs", "get", "tool", good)).stderr).toContain("no such run");
  for (const words of [
    ["delete"],
    ["retry"],
    ["delete", "--all", "--tag", "x"],
    ["retry", "--function", ""],
  ]) {
    const [command = "", ...flags] = words;
    const { code } = await client.run("runs", command, "tool", ...flags, "--yes");
    expect([words, code]).toEqual([words, 2]);
  }
  const { stderr } = await client.run("runs", "cancel", "tool", "--status", "success", "--yes");
  expect(stderr).toContain("is not possible");
});
