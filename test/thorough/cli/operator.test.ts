import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import {
  MILLRACE,
  installed,
  run,
  scratchDirectory,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const ADA = "ada@example.com";

/** `millrace …` on a data directory, at the machine. */
async function operate(dataDir: string, ...args: string[]) {
  return await run(MILLRACE, args, { env: serviceEnvironment(dataDir) });
}

async function operated<T>(dataDir: string, ...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await operate(dataDir, ...args, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as T;
}

type Served = { readonly baseUrl: string; stop(): Promise<void> };

/** A service on a data directory. */
async function serve(dataDir: string): Promise<Served> {
  return (await testService({}, { dataDir })).service;
}

async function post({ baseUrl }: Served, where: string, body: object): Promise<number> {
  const headers = { "content-type": "application/json" };
  return (await fetch(`${baseUrl}${where}`, { method: "POST", headers, body: JSON.stringify(body) })).status;
}

async function asked(
  { baseUrl }: Served,
  where: string,
  body: object,
  token = "",
): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
  const answer = await fetch(`${baseUrl}${where}`, { method: "POST", headers, body: JSON.stringify(body) });
  expect([where, answer.status]).toEqual([where, 200]);
  return (await answer.json()) as Record<string, unknown>;
}

const statusOf = async ({ baseUrl }: Served, projectId: string, token: string): Promise<number> => {
  const headers = { authorization: `Bearer ${token}` };
  return (await fetch(`${baseUrl}/v2/projects/${projectId}/audit`, { headers })).status;
};

verifies("cli.reset-password", "who forgot their password chooses another by a link, once", async () => {
  const dataDir = path.join(scratchDirectory(), "data");
  let served = await serve(dataDir);
  type Link = { url: string; is_first: boolean };
  const linkFor = async (email: string) => await operated<Link>(dataDir, "reset-password", email);
  const secretOf = ({ url }: Link) => url.split("#")[1];

  // Nobody can sign in yet: what helps then is the link that makes the first person.
  const first = await linkFor(ADA);
  expect([first.is_first, first.url]).toEqual([true, expect.stringContaining(`${served.baseUrl}/setup#`)]);
  expect(
    await post(served, "/v2/setup", { link: secretOf(first), email: ADA, password: "the first words" }),
  ).toBe(200);

  const link = await linkFor("Ada@Example.com");
  expect([link.is_first, link.url]).toEqual([false, expect.stringContaining(`${served.baseUrl}/password#`)]);
  const signIn = async (password: string) => await post(served, "/v2/session", { email: ADA, password });
  expect(await signIn("the first words")).toBe(200);
  const choose = { link: secretOf(link), password: "the second words" };
  expect([await post(served, "/v2/password", choose), await post(served, "/v2/password", choose)]).toEqual([
    200, 403,
  ]);
  expect([await signIn("the first words"), await signIn("the second words")]).toEqual([401, 200]);

  // Two with one address: the operator says which of them.
  const fields = await installed(dataDir);
  const invitations = `/v2/projects/${fields.project_id}/invitations`;
  const { inviteUrl } = await asked(served, invitations, { email: ADA }, fields.token);
  const second = { link: String(inviteUrl).split("#")[1], email: ADA, password: "the other ada" };
  const { personId } = await asked(served, "/v2/invitation/sign-up", second);
  const both = await operate(dataDir, "reset-password", ADA);
  expect([both.code, both.stdout]).toEqual([1, ""]);
  expect(both.stderr).toMatch(/2 accounts have the address ada@example\.com/);
  expect(both.stderr).toContain(String(personId));
  const own = { link: secretOf(await linkFor(String(personId))), password: "the fourth words" };
  expect(await asked(served, "/v2/password", own)).toMatchObject({ personId });
  expect([await signIn("the fourth words"), await signIn("the second words")]).toEqual([200, 200]);

  const audit = await fetch(`${served.baseUrl}/v2/projects/${fields.project_id}/audit`, {
    headers: { authorization: `Bearer ${fields.token}` },
  });
  expect(JSON.stringify(await audit.json())).toContain('"person.password-link"');
  await served.stop();

  // With the service down, for the next time it is up; the words are for people.
  const ada = (/(u-[\w-]+): since/.exec(both.stderr) ?? [])[1] ?? "";
  const { stdout } = await operate(dataDir, "reset-password", ada);
  const [, url = ""] = /choose a new password\..*:\n(http\S+)\n$/.exec(stdout) ?? [];
  served = await serve(dataDir);
  const later = { link: url.split("#")[1], password: "the third words" };
  expect([await post(served, "/v2/password", later), await signIn("the third words")]).toEqual([200, 200]);

  const unknown = await operate(dataDir, "reset-password", "eve@example.com");
  expect([unknown.code, unknown.stdout, unknown.stderr]).toEqual([
    1,
    "",
    expect.stringMatching(/no account has the address eve@example\.com[^]*invite/),
  ]);
  const wrong = await operate(dataDir, "reset-password", "ada");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("ada is not an e-mail address")]);
});

verifies(
  "cli.rotate-keys",
  "a new key signs; the owner's token is renewed, and older ones end with their key",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const served = await serve(dataDir);
    type Keys = { signing: string; before: string };
    const rotate = async () => await operated<Keys>(dataDir, "rotate-keys");
    const status = async (token: string) => await statusOf(served, projectId, token);
    const { project_id: projectId, token: first } = await installed(dataDir);

    const one = await rotate();
    const { token: second } = await installed(dataDir);
    expect(second).not.toBe(first);
    expect(readFileSync(path.join(dataDir, "owner-token"), "utf8")).toBe(`${second}\n`);
    expect([await status(first), await status(second)]).toEqual([200, 200]);
    const set = (await (await fetch(`${served.baseUrl}/.well-known/jwks.json`)).json()) as {
      keys: { kid: string }[];
    };
    expect(set.keys.map(({ kid }) => kid)).toEqual([one.signing, one.before]);

    const two = await rotate();
    expect(two.before).toBe(one.signing);
    await until("the first token is void", async () => (await status(first)) === 401);
    const { token: third } = await installed(dataDir);
    expect([await status(second), await status(third)]).toEqual([200, 200]);
    await served.stop();

    // With the service down; the words are for people.
    const { stdout } = await operate(dataDir, "rotate-keys");
    expect(stdout).toContain(`Tokens signed with the key ${two.signing} stay valid`);
    const again = await serve(dataDir);
    const { token: fourth } = await installed(dataDir);
    expect([await statusOf(again, projectId, third), await statusOf(again, projectId, fourth)]).toEqual([
      200, 200,
    ]);
    expect(await statusOf(again, projectId, second)).toBe(401);
  },
);
