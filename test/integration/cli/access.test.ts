import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { claimsOf } from "../../support/identity-site.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const shared = sharedService({ hello: { main: "def run():\n    return 'hello'\n" } });

function profilesOf(client: Client): {
  current: string | null;
  servers: Record<string, Record<string, string>>;
} {
  return JSON.parse(readFileSync(path.join(client.cwd, "config/millrace/profiles.json"), "utf8"));
}

verifies("cli.accounts", "service accounts are made, listed, rotated and deleted", async () => {
  const test = shared();
  const client = new Client(test);
  const token = (
    await client.ok("service-accounts", "create", "ci", "--role", "run", "--expires", "30d")
  ).trim();
  expect(claimsOf(token)).toMatchObject({ role: "run", project_id: test.service.owner.projectId });
  const { exp, iat } = claimsOf(token);
  expect(Math.round((Number(exp) - Number(iat)) / 86_400)).toBe(30);
  expect(await client.ok("service-accounts", "list")).toMatch(
    /^ID +NAME +ROLE +WEIGHT +EXPIRES +LAST USED\n(?:.*\n)*sa-\S+ +ci +run +1 +in (?:29|30) d +–$/m,
  );

  const rotated = await client.json("service-accounts", "rotate", "ci", "--overlap", "1h");
  expect(rotated.token).not.toBe(token);
  for (const good of [token, rotated.token]) {
    expect(await new Client(test, { MILLRACE_TOKEN: good }).ok("call", "hello")).toBe("hello\n");
  }
  const asked = await client.run("service-accounts", "delete", "ci");
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("add --yes")]);
  await client.ok("service-accounts", "delete", "ci", "--yes");
  const gone = await client.run("service-accounts", "rotate", "ci");
  expect([gone.code, gone.stderr]).toEqual([2, expect.stringContaining('there is no account "ci"')]);
});

verifies(
  "call.cli",
  "an account of role call is made with its limits, listed with its apps, and has tokens for end users",
  async () => {
    const test = shared();
    const client = new Client(test);
    const limits = ["--app", "hello", "--app", "counter", "--function", "run", "--calls-per-minute", "60"];
    const origins = ["--origin", "https://a.example", "--origin", "https://b.example"];
    const create = ["service-accounts", "create", "shop", "--role", "call", ...limits, ...origins];
    const made = (await client.json(...create)) as { id: string; token: string };
    expect(made).toMatchObject({
      role: "call",
      apps: ["hello", "counter"],
      functions: ["run"],
      origins: ["https://a.example", "https://b.example"],
      callsPerMinute: 60,
    });
    expect(await client.ok("service-accounts", "list")).toMatch(
      /^sa-\S+ +shop +call: hello, counter +1 +in /m,
    );
    const token = ["service-accounts", "token"];
    const ada = (await client.ok(...token, "shop", "--user", "ada", "--expires", "15m")).trim();
    const { sub, user, exp, iat } = claimsOf(ada);
    expect([sub, user, Number(exp) - Number(iat)]).toEqual([made.id, "ada", 900]);
    const called = await new Client(test, { MILLRACE_TOKEN: ada }).ok("call", "hello");
    expect(called).toBe("hello\n");
    // Who may make tokens for end users need not be able to list accounts.
    const weak = (await client.ok("service-accounts", "create", "backend", "--role", "run")).trim();
    const backend = new Client(test, { MILLRACE_TOKEN: weak });
    expect(claimsOf((await backend.ok(...token, made.id, "--user", "grace")).trim())["user"]).toBe("grace");
    const wrong = await client.run("service-accounts", "create", "bare", "--role", "call");
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("apps: must name the apps")]);
    const count = await client.run("service-accounts", "create", "x", "--calls-per-minute", "many");
    expect([count.code, count.stderr]).toEqual([2, expect.stringContaining("takes a number")]);
  },
);

verifies("cli.members", "somebody is invited, listed, revoked and taken out", async () => {
  const test = shared();
  const client = new Client(test);
  const email = "eve@example.com";
  const link = (await client.ok("members", "invite", email, "--role", "owner")).trim();
  expect(link).toMatch(/\/invitation#[\w-]{43}$/);
  expect(await client.ok("members", "invitations")).toMatch(
    /^ID +FOR +ROLE +LINK +EXPIRES\ninv-\S+ +eve@example\.com +owner +shown +in (?:6|7) d$/m,
  );
  await client.ok("members", "revoke", "Eve@example.com");
  expect(await client.json("members", "invitations")).toEqual([]);
  const gone = await client.run("members", "revoke", email);
  expect([gone.code, gone.stderr]).toEqual([2, expect.stringContaining("no member or invitation matches")]);
  const mailed = await client.run("members", "invite", email, "--mail");
  expect([mailed.code, mailed.stderr]).toEqual([2, expect.stringContaining("does not send mail")]);

  for (const password of ["the first words", "the second words"]) {
    const made = (await client.json("members", "invite", email)) as { inviteUrl: string };
    const signedUp = await fetch(`${test.service.baseUrl}/v2/invitation/sign-up`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ link: made.inviteUrl.split("#")[1], email, password }),
    });
    expect(signedUp.status).toBe(200);
  }
  expect(await client.ok("members", "list")).toMatch(/^u-\S+ +eve@example\.com +no +member +\S.*$/m);
  const both = await client.run("members", "remove", email, "--yes");
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("several people have the address")]);
  const [{ personId }] = (await client.json("members", "list")) as [{ personId: string }];
  const asked = await client.run("members", "remove", personId);
  expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("add --yes")]);
  await client.ok("members", "remove", personId, "--yes");
  expect(await client.ok("members", "remove", email, "--yes")).toContain("no longer in the project");
});

verifies(
  "cli.login",
  "a person signs in with a code, and is kept in a file that only its owner reads",
  async () => {
    const test = await testService({ hello: { main: "def run():\n    return 'hello'\n" } });
    const site = await ManagementSite.open(test);
    const client = new Client(test, { MILLRACE_TOKEN: "" });
    const login = client.start(
      "login",
      test.service.baseUrl,
      "--api-url",
      test.service.apiUrl,
      "--project",
      site.projectId,
    );
    const [, code = ""] = await login.printed(/approve the code ([A-Z]{4}-[A-Z]{4})/);
    expect(
      (await site.ask("POST", "/device/approve", { as: "owner", body: { user_code: code } })).status,
    ).toBe(200);
    expect(await login.exited).toBe(0);
    expect(login.stdout).toContain(`Signed in to ${test.service.baseUrl}, project ${site.projectId}`);

    const file = path.join(client.cwd, "config/millrace/profiles.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    // The profile alone is enough from here on.
    const other = new Client(null, { XDG_CONFIG_HOME: path.join(client.cwd, "config") });
    expect(await other.ok("call", "hello")).toBe("hello\n");
    expect(await other.json("whoami")).toMatchObject({
      url: test.service.baseUrl,
      project: site.projectId,
      account: "ada@example.com",
      token_from: "millrace login",
    });

    // An access token that is over is replaced by the refresh token.
    const profiles = profilesOf(client);
    const server = profiles.servers[test.service.baseUrl]!;
    const spoilt = {
      ...profiles,
      servers: { [test.service.baseUrl]: { ...server, token: `${server["token"]}x` } },
    };
    writeFileSync(file, JSON.stringify(spoilt));
    expect(await other.ok("call", "hello")).toBe("hello\n");
    expect(profilesOf(client).servers[test.service.baseUrl]?.["token"]).not.toBe(`${server["token"]}x`);

    const made = (await other.ok("projects", "create", "second")).trim();
    await other.ok("projects", "use", "second");
    expect(await other.json("whoami")).toMatchObject({ project: made });
    expect(await other.ok("projects")).toMatch(new RegExp(`^\\* +${made} +second$`, "m"));

    expect(await other.ok("logout")).toBe(`Signed out of ${test.service.baseUrl}.\n`);
    expect(profilesOf(client).servers).toEqual({});
    const over = await fetch(`${test.service.baseUrl}/token`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: `grant_type=refresh_token&refresh_token=${server["refreshToken"]}`,
    });
    expect(over.status).toBe(400);
  },
);

verifies(
  "cli.login",
  "a token from a pipe or the environment signs in without a browser; one that is not good is not kept",
  async () => {
    const { service } = shared();
    const client = new Client(null);
    const url = [service.baseUrl, "--api-url", service.apiUrl];
    const signedIn = await client.pipe(`${service.owner.token}\n`, "login", ...url, "--token");
    expect([signedIn.code, signedIn.stderr]).toEqual([0, ""]);
    expect(await client.ok("call", "hello")).toBe("hello\n");
    const bad = await client.pipe("nonsense", "login", ...url, "--token");
    expect([bad.code, bad.stderr]).toEqual([1, expect.stringContaining("does not accept the token")]);
    expect(await client.ok("call", "hello")).toBe("hello\n");
    const none = await client.pipe("", "login", ...url, "--token");
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("no token was given")]);
    const project = await client.pipe(
      service.owner.token,
      "login",
      ...url,
      "--token",
      "--project",
      "p-nowhere",
    );
    expect([project.code, project.stderr]).toEqual([2, expect.stringContaining("you have no project")]);
  },
);

verifies("cli.login", "the environment wins over the profile, and flags over the environment", async () => {
  const { service } = shared();
  const client = new Client(null);
  mkdirSync(path.join(client.cwd, "config/millrace"), { recursive: true });
  const elsewhere = "http://127.0.0.1:1";
  const servers = { [elsewhere]: { token: "t", project: "p-profile" } };
  writeFileSync(
    path.join(client.cwd, "config/millrace/profiles.json"),
    JSON.stringify({ current: elsewhere, servers }),
  );
  const lost = await client.run("apps", "list");
  expect([lost.code, lost.stderr]).toEqual([
    1,
    expect.stringContaining(`no service answers at ${elsewhere}`),
  ]);
  Object.assign(client.env, { MILLRACE_URL: service.baseUrl, MILLRACE_TOKEN: service.owner.token });
  expect(await client.json("apps", "list")).toHaveLength(1);
  Object.assign(client.env, { MILLRACE_PROJECT: "p-nowhere" });
  const refused = await client.run("apps", "list");
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining("not allowed to do that in p-nowhere"),
  ]);
  expect(await client.json("apps", "list", "--project", service.owner.projectId)).toHaveLength(1);
  const flagged = await client.run("apps", "list", "--url", elsewhere);
  expect([flagged.code, flagged.stderr]).toEqual([
    1,
    expect.stringContaining(`no service answers at ${elsewhere}`),
  ]);
});

verifies(
  "cli.login",
  "where a service runs on this folder's data directory, its owner's token is found",
  async () => {
    const { settings, service } = shared();
    const client = new Client(null, { MILLRACE_DATA_DIR: settings.dataDir });
    expect(await client.ok("call", "hello")).toBe("hello\n");
    expect(await client.json("whoami")).toMatchObject({
      url: service.baseUrl,
      token_from: "this folder's service",
    });
    // It is for that service and for no other.
    const other = await client.run("apps", "list", "--url", "http://127.0.0.1:1");
    expect([other.code, other.stderr]).toEqual([
      1,
      expect.stringContaining("no token for http://127.0.0.1:1"),
    ]);
  },
);

test("signing out without having signed in, and a broken file of profiles, are said", async () => {
  const client = new Client(null);
  const out = await client.run("logout");
  expect([out.code, out.stderr]).toEqual([2, "millrace: you are not signed in\n"]);
  mkdirSync(path.join(client.cwd, "config/millrace"), { recursive: true });
  writeFileSync(path.join(client.cwd, "config/millrace/profiles.json"), "{");
  const broken = await client.run("apps", "list");
  expect([broken.code, broken.stderr]).toEqual([1, expect.stringContaining("was not written by millrace")]);
});
