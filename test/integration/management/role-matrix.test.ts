import { beforeAll, expect, test } from "vitest";
import { type Role, ROLES } from "../../../src/model/roles.ts";
import { allOperations } from "../../../src/management/operations.ts";
import { identitiesOf, type Identity } from "../../support/identities.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

/** Who may do what, operation by operation. */
const MAY: Record<string, readonly string[]> = {
  run: names(`listApps getApp listContainers getAppGpus listProjectRuns listRuns getRun listBulkJobs startBulkJob countBulkRuns getBulkJob
    cancelBulkJob getQueueHistory getFigures getTraffic getUsage getProject getQueue listSchedules getSchedule runSchedule listBatches getBatch
    listDeliveries getDelivery redeliverOne redeliverMany createUserToken`),
  deploy: names(
    `listLogs getProjectSecrets getAppSecrets listFiles offerFile listWebhookSecrets listMembers
    beginDeploy beginPartnerDeploy deploy dryRunDeploy listBuilds getBuild getBuildChanges listBuildLogs cancelBuild changeApp rollBackApp restartApp getConfiguration
    pauseQueue resumeQueue drainQueue createSchedule changeSchedule deleteSchedule createRunApp makeBaseImage runFile`,
  ),
  admin:
    names(`updateProject createServiceAccount listServiceAccounts updateServiceAccount rotateServiceAccount
    deleteServiceAccount deleteApp changeMember removeMember listInvitations createInvitation revokeInvitation listAudit replaceProjectSecrets replaceAppSecrets
    beginUpload completeUpload removeFile createWebhookSecret deleteWebhookSecret`),
  any: names("listProjects listHardware"),
  person: names(`createProject getMe changePassword changeEmail askForProof proveEmail joinProject
    listSessions endSession approveDevice`),
  operator: names("makePasswordLink getIsolation listNodes changeNode listGpus"),
  anybody: names(`setUp signIn refreshSession signOut acceptPasswordLink forgotPassword readInvitation
    signUp askForDevice redeemToken getPublicKeys listNotifications putPart readFile putBundle`),
};

function names(text: string): string[] {
  return text.split(/\s+/);
}

const service = sharedService();
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

test("every operation is in the table once, and its own entry says the same", () => {
  const listed = Object.values(MAY).flat();
  expect(listed.toSorted()).toEqual(site.operations.map(({ id }) => id).toSorted());
  const accessOf = new Map(allOperations({} as never).map(({ id, access }) => [id, access]));
  for (const [access, ids] of Object.entries(MAY)) {
    for (const id of ids) {
      const { security, "x-access": told } = site.operation(id);
      expect([id, told, Boolean(security)]).toEqual([id, access, access !== "anybody"]);
      expect([id, accessOf.get(id) ?? "anybody"]).toEqual([id, access]);
    }
  }
});

/** Whether somebody is let into an operation; all that is known of it is what the document says. */
function isLetIn(access: string, { isKnown, role, isPerson, isOperator, isForCalls }: Identity): boolean {
  if (access === "anybody" || !isKnown) return access === "anybody";
  // A token that may be public lets nobody into the management API, of whichever project it is.
  if (isForCalls) return false;
  if (access === "any") return true;
  if (access === "person") return isPerson;
  if (access === "operator") return isOperator;
  return role !== null && ROLES.indexOf(role) >= ROLES.indexOf(access as Role);
}

verifies(
  ["management.matrix", "token.roles", "management.bearer", "errors.403.no-right"],
  "every operation of the document lets in exactly those that its entry names",
  async () => {
    const identities = await identitiesOf(site);
    const faults: unknown[] = [];
    let asked = 0;
    for (const { id, method, path, "x-access": access } of site.operations) {
      const url = path.replace("{project_id}", site.projectId).replaceAll(/\{\w+\}/g, "none");
      await Promise.all(
        identities.map(async (identity) => {
          const letIn = isLetIn(access, identity);
          // Who is not let in is told so before a byte of what they send is looked at.
          const body = method === "GET" ? {} : { body: letIn ? { nonsense: true } : '{"broken' };
          const headers = identity.token === null ? {} : { authorization: `Bearer ${identity.token}` };
          const answer = await site.ask(method, url, { as: "nobody", headers, ...body });
          asked += 1;
          site.check(id, answer);
          const { status } = answer;
          const isRefused = status === 401 || status === 403;
          const isRight = letIn
            ? // What needs no token may still refuse what it is given instead of one.
              (!isRefused || access === "anybody") && status < 500
            : status === (identity.isKnown ? 403 : 401);
          const isChallenged = answer.headers.get("www-authenticate") === "Bearer";
          if (!isRight || (status === 401) !== isChallenged) faults.push([id, identity.name, status]);
        }),
      );
    }
    expect(faults).toEqual([]);
    expect(identities.length).toBeGreaterThanOrEqual(30);
    expect(identities.filter(({ isForCalls }) => isForCalls)).toHaveLength(4);
    expect(asked).toBe(site.operations.length * identities.length);
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
