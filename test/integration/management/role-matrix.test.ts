import { beforeAll, expect, test } from "vitest";
import { allOperations } from "../../../src/management/operations.ts";
import { CALLERS, ManagementSite } from "../../support/management-site.ts";
import type { Caller } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

/** Who may do what, operation by operation. */
const MAY: Record<string, readonly string[]> = {
  run: names(`listApps getApp listContainers listProjectRuns listRuns getRun getFigures getTraffic
    listDeliveries getDelivery redeliverOne redeliverMany`),
  deploy: names(
    `listLogs getProjectSecrets getAppSecrets listFiles offerFile listWebhookSecrets listMembers
    beginDeploy deploy listBuilds getBuild listBuildLogs cancelBuild changeApp rollBackApp getConfiguration
    createRunApp makeBaseImage runFile`,
  ),
  admin: names(`createServiceAccount listServiceAccounts updateServiceAccount rotateServiceAccount
    deleteServiceAccount deleteApp setMember removeMember listAudit replaceProjectSecrets replaceAppSecrets
    beginUpload completeUpload removeFile createWebhookSecret deleteWebhookSecret`),
  anyone: names("listProjects listHardware"),
  person: names("createProject getMe changePassword listSessions endSession approveDevice"),
  nobody: names(`setUp signIn refreshSession signOut acceptPasswordLink askForDevice redeemToken
    getPublicKeys listNotifications putPart readFile putBundle`),
};

function names(text: string): string[] {
  return text.split(/\s+/);
}

/** In the service's own project; a member of a project is what the role deploy is, an owner what admin is. */
const RANKS: Record<Caller, number> = {
  nobody: -1,
  stranger: -1,
  run: 0,
  deploy: 1,
  admin: 2,
  member: 1,
  owner: 2,
};

const service = sharedService();
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

test("every operation is in the table once, and its own entry says the same", () => {
  const listed = Object.values(MAY).flat();
  expect(listed.toSorted()).toEqual(site.operations.map(({ id }) => id).toSorted());
  for (const { id, access } of allOperations({} as never)) {
    const name = Object.keys(MAY).find((key) => MAY[key]?.includes(id));
    const expected = { anyone: "any", person: "any", nobody: null }[name ?? ""];
    expect([id, access]).toEqual([id, expected === undefined ? name : expected]);
    const hasBearer = Boolean(site.operation(id).security);
    expect([id, hasBearer]).toEqual([id, access !== null]);
  }
});

verifies(
  ["token.roles", "management.bearer", "errors.403.no-right"],
  "every role is let into exactly the operations that are its own",
  async () => {
    const wrong: unknown[] = [];
    let asked = 0;
    for (const [name, ids] of Object.entries(MAY)) {
      for (const id of ids) {
        const { method, path } = site.operation(id);
        const url = path.replace("{project_id}", site.projectId).replaceAll(/\{\w+\}/g, "none");
        for (const as of CALLERS) {
          const body = method === "GET" ? {} : { body: { nonsense: true } };
          const { status, headers } = await site.ask(method, url, { as, ...body });
          asked += 1;
          const isPerson = as === "member" || as === "owner";
          const isLetIn =
            name === "nobody" ||
            (name === "anyone" && as !== "nobody") ||
            (name === "person" && isPerson) ||
            RANKS[as] >= ["run", "deploy", "admin"].indexOf(name);
          if (name === "nobody") {
            // Nobody's token is asked for; what some of these hand in instead is refused as such.
            if (status === 403 && headers.has("www-authenticate")) wrong.push([id, as, status]);
          } else if (as === "nobody") {
            if (status !== 401 || headers.get("www-authenticate") !== "Bearer") wrong.push([id, as, status]);
          } else if (name === "person" && !isPerson) {
            // That only a person may is seen after the nonsense is.
            if (status !== 403 && status !== 400) wrong.push([id, as, status]);
          } else if ((status === 403) === isLetIn || status === 401 || status >= 500) {
            wrong.push([id, as, status]);
          }
        }
      }
    }
    expect(wrong).toEqual([]);
    expect(asked).toBe(site.operations.length * CALLERS.length);
  },
);

test("what only a person may is refused to a service account, with good input too", async () => {
  const answer = await site.ask("POST", "/v2/projects", { as: "admin", body: { name: "mine" } });
  expect([answer.status, answer.json.code]).toEqual([403, "forbidden"]);
});

test("a project that does not exist is refused in the same words as one of others", async () => {
  const answers = await Promise.all(
    ["p-stranger", "p-none"].map(async (projectId) => {
      const { status, json } = await site.ask("GET", `/v2/projects/${projectId}/secrets`);
      return { status, ...json, request_id: "" };
    }),
  );
  expect(answers[0]).toMatchObject({ status: 403, code: "forbidden" });
  expect(answers[1]).toEqual(answers[0]);
});
