import { expect, test } from "vitest";
import { ROLES } from "../../../src/identity/principal.ts";
import { testDatabases } from "../../support/databases.ts";
import { IdentitySite } from "../../support/identity-site.ts";

const databases = testDatabases();

/** The operation's path with something in the place of each parameter. */
function pathOf(path: string, projectId: string): string {
  return path.replace("{project_id}", projectId).replaceAll(/\{\w+\}/g, "none");
}

test("every route lets in exactly who its operation names, whatever is sent", async () => {
  const site = await IdentitySite.open(await databases.fresh("sqlite"));
  await site.store.projects.insert({ id: "p-other", name: "other", createdAt: 1 });
  const owner: string = (await site.setUp()).json.accessToken;
  const email = "grace@example.com";
  const member: string = (await site.signUp(await site.invite(owner, { email }), email)).json.accessToken;

  const callers: { who: string; token: string | null; rank: number; isPerson: boolean }[] = [
    { who: "nobody", token: null, rank: -1, isPerson: false },
    ...(await Promise.all(
      ROLES.map(async (who, rank) => ({ who, token: await site.account(who), rank, isPerson: false })),
    )),
    {
      who: "another project's admin",
      token: await site.account("admin", "p-other"),
      rank: -1,
      isPerson: false,
    },
    { who: "member", token: member, rank: ROLES.indexOf("deploy"), isPerson: true },
    { who: "owner", token: owner, rank: ROLES.indexOf("admin"), isPerson: true },
  ];
  const faults: unknown[] = [];
  let asked = 0;
  for (const { method, path, id, access } of site.operations) {
    if (access === null) continue;
    for (const { who, token, rank, isPerson } of callers) {
      const { status } = await site.ask(method, pathOf(path, site.projectId), {
        token,
        ...(method !== "GET" && method !== "DELETE" && { body: { nonsense: true } }),
      });
      // The first person runs the installation.
      const isLetIn =
        access === "any" ||
        (access === "person"
          ? isPerson
          : access === "operator"
            ? who === "owner"
            : rank >= ROLES.indexOf(access));
      // Who is let in fails on the nonsense at most.
      const expected = token === null ? [401] : isLetIn ? [200, 400, 404] : [403];
      if (!expected.includes(status)) faults.push([id, who, status]);
      asked += 1;
    }
  }
  expect(faults).toEqual([]);
  expect(asked).toBeGreaterThan(80);
});

test("a project that does not exist and one of others are refused in the same words", async () => {
  const site = await IdentitySite.open(await databases.fresh("sqlite"));
  await site.store.projects.insert({ id: "p-other", name: "other", createdAt: 1 });
  const person: string = (await site.setUp()).json.accessToken;
  await site.store.projects.insert({ id: "p-later", name: "later", createdAt: 1 });
  for (const token of [await site.account("admin"), person]) {
    const answers = [];
    for (const projectId of ["p-later", "p-none"]) {
      const { status, json } = await site.ask("GET", `/v2/projects/${projectId}/members`, { token });
      answers.push({ status, ...json, request_id: "" });
    }
    expect(answers[0]).toMatchObject({ status: 403, code: "forbidden" });
    expect(answers[1]).toEqual(answers[0]);
  }
});
