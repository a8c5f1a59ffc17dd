import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

/** Each test has apps of its own in it. */
const shared = sharedService();

/** A folder of the client's own that holds an app of that name. */
function appFolder(
  client: Client,
  name: string,
  main: string,
  toml = `[deployment]\nname = "${name}"\n`,
): string {
  mkdirSync(path.join(client.cwd, name), { recursive: true });
  writeFileSync(path.join(client.cwd, name, "main.py"), main);
  writeFileSync(path.join(client.cwd, name, "millrace.toml"), toml);
  return name;
}

const answering = (text: string): string => `def run():\n    return "${text}"\n`;

verifies(
  "cli.deploy",
  "deploy brings a folder to a running version, with its log, endpoint and a curl",
  async () => {
    const test = shared();
    const client = new Client(test);
    const out = await client.ok("deploy", appFolder(client, "first", answering("one")));
    expect(out).toMatch(/^check +ready after [\d.]+ s: run$/m);
    expect(out).toContain("first is deployed");
    expect(out).toContain(`${test.url("first")}\n`);
    expect(out).toMatch(/^  curl -X POST '\S+\/first\/run' /m);
    expect(out).not.toContain(test.service.owner.token);
    expect(await client.ok("call", "first")).toBe("one\n");

    const again = await client.json(
      "deploy",
      appFolder(client, "first", answering("two")),
      "--name",
      "other",
    );
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
  "a deploy that fails says why and ends with 1, and the previous version keeps serving",
  async () => {
    const client = new Client(shared());
    await client.ok("deploy", appFolder(client, "failing", answering("one")));
    const broken = await client.run(
      "deploy",
      appFolder(client, "failing", "raise ValueError('not today')\n"),
    );
    expect(broken.code).toBe(1);
    expect(broken.stdout).toContain("ValueError: not today");
    expect(broken.stderr).toMatch(
      /^millrace: the deploy of failing ended as init_failure: ValueError: not today\n  → /,
    );
    expect(await client.ok("call", "failing")).toBe("one\n");
    const listed = await client.json("builds", "list", "failing");
    expect(listed.map(({ status }: { status: string }) => status)).toEqual(["init_failure", "success"]);
    expect(await client.ok("builds", "logs", "failing")).toContain("ValueError: not today");
  },
);

verifies("cli.deploy", "what is wrong with a folder is said before anything is sent", async () => {
  const client = new Client(null, { MILLRACE_URL: "http://127.0.0.1:1", MILLRACE_TOKEN: "t" });
  const app = appFolder(client, "faulty", "", "[scaling]\ncooldown = -1\nmin_replicas = 'x'\n");
  for (const [args, message] of [
    [["nowhere"], "there is no folder"],
    [["n".repeat(300)], "there is no folder"],
    [["."], "has no main.py"],
    [[app], "has 2 problems"],
  ] as const) {
    const { code, stderr } = await client.run("deploy", ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
  const named = await client.run(
    "deploy",
    appFolder(client, "faulty", "", "[deployment]\n"),
    "--name",
    "Not A Name",
  );
  expect([named.code, named.stderr]).toEqual([2, expect.stringContaining("is not a valid app name")]);
});

verifies("cli.deploy", "Ctrl-C ends the build on the service", async () => {
  const test = shared();
  const client = new Client(test);
  const folder = appFolder(client, "interrupted", "import time\ntime.sleep(600)\n");
  const deploy = client.start("deploy", folder);
  await deploy.printed(/starting one replica/);
  expect(await deploy.interrupt()).toBe(130);
  expect(deploy.stderr).toMatch(/^cancelled build [0-9a-f-]{36}$/m);
  const [build] = await client.json("builds", "list", "interrupted");
  expect(build.status).toBe("cancelled");
});

verifies(
  "cli.deploy",
  "--detach prints the build's id at once; builds logs --follow and cancel go on from there",
  async () => {
    const client = new Client(shared());
    const folder = appFolder(client, "detached", "import time\ntime.sleep(600)\n");
    const id = (await client.ok("deploy", folder, "--detach")).trim();
    const follow = client.start("builds", "logs", "detached", id, "--follow");
    await follow.printed(/starting one replica/);
    await client.ok("builds", "cancel", "detached");
    expect(await follow.exited).toBe(1);
    expect(follow.stderr).toContain("the build ended as cancelled");
  },
);

verifies("cli.apps", "apps are listed, shown, scaled, rolled back and deleted", async () => {
  const test = await testService();
  const client = new Client(test);
  for (const text of ["one", "two"]) await client.ok("deploy", appFolder(client, "hello", answering(text)));
  expect(await client.ok("apps", "list")).toMatch(/^APP +STATUS +UPDATED +CREATED\nhello +ready +/);
  expect(await client.json("apps", "list")).toEqual([expect.objectContaining({ status: "ready" })]);
  expect(await client.ok("apps", "get", "hello")).toContain(
    `endpoint  ${test.url("hello", "").slice(0, -1)}\n`,
  );

  await client.ok("apps", "scale", "hello", "--min", "1", "--max", "3", "--cooldown", "2m", "--grace", "1h");
  expect(await client.json("apps", "get", "hello")).toMatchObject({
    minReplicaCount: "1",
    maxReplicaCount: "3",
    cooldownPeriodSeconds: "120",
    responseGracePeriodSeconds: "3600",
  });
  const containers = `/v2/projects/${test.service.owner.projectId}/apps/${test.service.owner.projectId}-hello/containers`;
  await until("a replica", async () => (await asOwner(test)<object[]>("GET", containers)).length > 0);
  expect(await client.ok("containers", "list", "hello")).toMatch(
    /^CONTAINER +STATE.*\nr-\w+ +(?:RUNNING|PENDING) /,
  );

  expect(await client.ok("apps", "rollback", "hello")).toMatch(
    /^hello now serves build [0-9a-f-]{36} again\.\n$/,
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
  const client = new Client(shared());
  await client.ok("deploy", appFolder(client, "refused", answering("one")));
  for (const [args, code, message] of [
    [["apps", "scale", "refused"], 2, "nothing to change"],
    [["apps", "scale", "refused", "--min", "many"], 2, "--min takes a number"],
    [["apps", "scale", "refused", "--grace", "long"], 2, "--grace takes a duration"],
    [["apps", "scale", "refused", "--max", "0"], 2, "maxReplicaCount"],
    [["apps", "rollback", "refused"], 1, "refused has no earlier version"],
  ] as const) {
    const ran = await client.run(...args);
    expect([ran.code, ran.stderr]).toEqual([code, expect.stringContaining(message)]);
  }
});
