import { cpSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { testService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";
import { Client, eventually } from "./client.ts";

/** A folder of the client's own that holds an app. */
function appFolder(client: Client, main: string, toml = ""): string {
  cpSync(path.join(REPOSITORY, "examples", "hello"), path.join(client.cwd, "hello"), { recursive: true });
  writeFileSync(path.join(client.cwd, "hello", "main.py"), main);
  if (toml !== "") writeFileSync(path.join(client.cwd, "hello", "millrace.toml"), toml);
  return "hello";
}

const answering = (text: string): string => `def run():\n    return "${text}"\n`;

verifies(
  "cli.deploy",
  "deploy brings a folder to a running version, with its log, endpoint and a curl",
  async () => {
    const test = await testService();
    const client = new Client(test);
    const out = await client.ok("deploy", appFolder(client, answering("one")));
    expect(out).toMatch(/^check +ready after [\d.]+ s: run$/m);
    expect(out).toContain("hello is deployed");
    expect(out).toContain(`${test.url("hello")}\n`);
    expect(out).toMatch(/^  curl -X POST '\S+\/hello\/run' /m);
    expect(out).not.toContain(test.service.owner.token);
    expect(await client.ok("call", "hello")).toBe("one\n");

    const again = await client.json("deploy", appFolder(client, answering("two")), "--name", "other");
    expect(again).toEqual({
      app: "other",
      build_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      status: "success",
      endpoint: test.url("other").replace(/\/run$/, ""),
    });
    expect(await client.ok("call", "other")).toBe("two\n");
  },
);

verifies(
  "cli.deploy",
  "a deploy that fails says why and ends with 1, and the version before goes on",
  async () => {
    const client = new Client(await testService());
    await client.ok("deploy", appFolder(client, answering("one")));
    const broken = await client.run("deploy", appFolder(client, "raise ValueError('not today')\n"));
    expect(broken.code).toBe(1);
    expect(broken.stdout).toContain("ValueError: not today");
    expect(broken.stderr).toMatch(
      /^millrace: the deploy of hello ended as init_failure: ValueError: not today\n  → /,
    );
    expect(await client.ok("call", "hello")).toBe("one\n");
    const listed = await client.json("builds", "list", "hello");
    expect(listed.map(({ status }: { status: string }) => status)).toEqual(["init_failure", "success"]);
    expect(await client.ok("builds", "logs", "hello")).toContain("ValueError: not today");
  },
);

verifies("cli.deploy", "what is wrong with a folder is said before anything is sent", async () => {
  const client = new Client(null, { MILLRACE_URL: "http://127.0.0.1:1", MILLRACE_TOKEN: "t" });
  const app = appFolder(client, "", "[scaling]\ncooldown = -1\nmin_replicas = 'x'\n");
  for (const [args, message] of [
    [["nowhere"], "there is no folder"],
    [["."], "has no main.py"],
    [[app], "has 2 problems"],
  ] as const) {
    const { code, stderr } = await client.run("deploy", ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
  const named = await client.run("deploy", appFolder(client, "", "[deployment]\n"), "--name", "Not A Name");
  expect([named.code, named.stderr]).toEqual([2, expect.stringContaining("cannot be an app's name")]);
});

verifies("cli.deploy", "Ctrl-C ends the build on the service", async () => {
  const test = await testService();
  const client = new Client(test);
  const folder = appFolder(client, "import time\ntime.sleep(600)\n");
  const deploy = client.start("deploy", folder);
  await deploy.printed(/starting one replica/);
  expect(await deploy.interrupt()).toBe(130);
  expect(deploy.stderr).toMatch(/^cancelled build [0-9a-f-]{36}$/m);
  const [build] = await client.json("builds", "list", "hello");
  expect(build.status).toBe("cancelled");
});

verifies(
  "cli.deploy",
  "--detach prints the build's id at once; builds logs --follow and cancel go on from there",
  async () => {
    const client = new Client(await testService());
    const folder = appFolder(client, "import time\ntime.sleep(600)\n");
    const id = (await client.ok("deploy", folder, "--detach")).trim();
    const follow = client.start("builds", "logs", "hello", id, "--follow");
    await follow.printed(/starting one replica/);
    await client.ok("builds", "cancel", "hello");
    expect(await follow.exited).toBe(1);
    expect(follow.stderr).toContain("the build ended as cancelled");
  },
);

verifies("cli.apps", "apps are listed, shown, scaled, rolled back and deleted", async () => {
  const test = await testService();
  const client = new Client(test);
  for (const text of ["one", "two"]) await client.ok("deploy", appFolder(client, answering(text)));
  expect(await client.ok("apps", "list")).toMatch(/^APP +STATUS +UPDATED +CREATED\nhello +ready +/);
  expect(await client.json("apps", "list")).toEqual([expect.objectContaining({ status: "ready" })]);
  expect(await client.ok("apps", "get", "hello")).toContain(test.url("hello"));

  await client.ok("apps", "scale", "hello", "--min", "1", "--max", "3", "--cooldown", "2m", "--grace", "1h");
  expect(await client.json("apps", "get", "hello")).toMatchObject({
    minReplicaCount: "1",
    maxReplicaCount: "3",
    cooldownPeriodSeconds: "120",
    responseGracePeriodSeconds: "3600",
  });
  await eventually("a replica", async () => (await client.json("containers", "list", "hello")).length > 0);
  expect(await client.ok("containers", "list", "hello")).toMatch(
    /^CONTAINER +STATE.*\nr-\w+ +(?:RUNNING|PENDING) /,
  );

  expect(await client.ok("apps", "rollback", "hello")).toMatch(
    /^hello is as build [0-9a-f-]{36} made it\.\n$/,
  );
  expect(await client.ok("call", "hello")).toBe("one\n");
  // It goes by what serves, not by what was built last.
  const further = await client.run("apps", "rollback", "hello");
  expect([further.code, further.stderr]).toEqual([1, expect.stringContaining("no earlier version")]);

  const kept = await client.run("apps", "delete", "hello");
  expect([kept.code, kept.stderr]).toEqual([2, expect.stringContaining("add --yes")]);
  // By its id, as lists of the API show it.
  await client.ok("apps", "delete", `${test.service.owner.projectId}-hello`, "--yes");
  expect(await client.json("apps", "list")).toEqual([]);
});

test("what cannot be is refused: bad numbers, nothing to change, nothing to go back to", async () => {
  const client = new Client(await testService());
  await client.ok("deploy", appFolder(client, answering("one")));
  for (const [args, code, message] of [
    [["apps", "scale", "hello"], 2, "nothing to change"],
    [["apps", "scale", "hello", "--min", "many"], 2, "--min takes a number"],
    [["apps", "scale", "hello", "--grace", "long"], 2, "--grace takes a duration"],
    [["apps", "scale", "hello", "--max", "0"], 2, "maxReplicaCount"],
    [["apps", "rollback", "hello"], 1, "hello has no earlier version"],
  ] as const) {
    const ran = await client.run(...args);
    expect([ran.code, ran.stderr]).toEqual([code, expect.stringContaining(message)]);
  }
});
