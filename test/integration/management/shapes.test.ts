import { beforeAll, expect } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";
import { formOf, tarOf } from "../once/site.ts";

const MAIN = `
def run(name="you"):
    print("hello", name)
    return {"hello": name}
`;

/** Of an account of role `call` alone. */
const LIMITS = "apps functions origins callsPerMinute";
/** The members of each 200, in the contract's own words and order. */
const SHAPES: Record<string, string> = {
  createServiceAccount: `id name description role projectId createdAt expiresAt ${LIMITS} token`,
  listServiceAccounts: `[] id name description role projectId createdAt expiresAt ${LIMITS} weight quotas lastUsedAt revokedAt`,
  listProjects: "[] id name",
  createProject: "id name",
  listApps: "[] id status createdAt updatedAt",
  getApp:
    "id createdAt updatedAt hardware cpu memory gpuCount gpuMemory cooldownPeriodSeconds minReplicaCount maxReplicaCount " +
    "responseGracePeriodSeconds status startFailure lastBuildStatus latestBuildId host",
  beginDeploy: "buildId status uploadUrl keyName internalEndpoint dashboardUrl",
  getBuild: "id status createdAt updatedAt",
  listBuildLogs: "logs status",
  listProjectRuns: "items nextToken completeSince",
  listRuns: "items nextToken completeSince",
  getRun: "item buildId",
  listContainers:
    "[] appId projectId containerId containerState pendingReason timestamp containerStartTimestamp " +
    "containerTerminationTimestamp containerRunningTimeMs setupMs startPhases gpus containerRestartCount hostIp containerIp " +
    "hardwareProvider region buildId isTerminating stopReason",
  listLogs: "logs nextPageToken hasMore",
  listFiles: "[] name is_folder size_bytes last_modified",
  beginUpload: "upload_id parts",
  offerFile: "url",
  askForDevice: "deviceAuthResponsePayload",
};

const RUN =
  "id projectId modelId functionName method async websocket status statusCode attempt createdAt startedAt " +
  "completedAt updatedAt containerId containerStartedAt ip region webhookEndpoint webhookStatus error queueTimeMs " +
  "runtimeMs responseTimeMs activatorQueueTimeMs containerQueueTimeMs totalQueueTimeMs executionTimeMs " +
  "totalResponseTimeMs requestBytes responseBytes batchSize batchReason gpuTimeMs inputTokens outputTokens dueAt priority tags maxAttempts " +
  "concurrencyKey fairnessKey startBy endBy " +
  "attempts position expectedStartAt schedule progress checkpoint traceId accountId user";
const LOG_LINE = "appId projectId runId containerId containerName logId lineNumber logLine stream timestamp";

const service = sharedService({ hello: { main: MAIN } }, { webhookAllow: "127.0.0.0/8" });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

/** The members of a schema; a list's are those of its entries. */
function membersOf(schema: Record<string, unknown>): string {
  const {
    type,
    items,
    properties = {},
  } = schema as {
    type?: string;
    items?: Record<string, unknown>;
    properties?: object;
  };
  return type === "array" ? `[] ${membersOf(items ?? {})}` : Object.keys(properties).join(" ");
}

function answerSchema(id: string): Record<string, unknown> {
  const { schema } = site.operation(id).responses["200"]?.content["application/json"] ?? {};
  // oxlint-disable-next-line no-explicit-any
  return schema as any;
}

verifies(
  ["management.camel-case", "management.timestamps"],
  "the document has the contract's members, timestamps are RFC 3339 or null",
  () => {
    for (const [id, members] of Object.entries(SHAPES)) {
      expect([id, membersOf(answerSchema(id))]).toEqual([id, members]);
    }
    // oxlint-disable-next-line no-explicit-any
    const [runs, logs] = [answerSchema("listRuns"), answerSchema("listLogs")] as any[];
    expect(membersOf(runs.properties.items)).toBe(`[] ${RUN}`);
    expect(membersOf(logs.properties.logs)).toBe(`[] ${LOG_LINE}`);
    const odd: string[] = [];
    const look = (schema: unknown, at: string): void => {
      if (typeof schema !== "object" || schema === null) return;
      for (const [name, member] of Object.entries(schema)) {
        if (/(At|[tT]imestamp|last_modified)$/.test(name) && !JSON.stringify(member).includes("date-time")) {
          odd.push(`${at}.${name}`);
        }
        look(member, `${at}.${name}`);
      }
    };
    for (const { id } of site.operations) look(answerSchema(id), id);
    expect(odd).toEqual([]);
    const snake = site.operations.filter(({ id }) =>
      /"[a-z]+_[a-z_]+":/.test(JSON.stringify(answerSchema(id))),
    );
    // Those the contract shows so.
    expect(snake.map(({ tags }) => tags[0]).filter((tag) => tag !== "Volumes" && tag !== "Sign-in")).toEqual(
      [],
    );
  },
);

verifies(
  [
    "projects.list",
    "apps.list",
    "apps.get",
    "runs.list",
    "runs.item",
    "containers.list",
    "notifications.list",
  ],
  "every operation answers a real request in exactly the form the document gives it",
  async () => {
    const { test } = site;
    const app_id = `${site.projectId}-hello`;
    const target = await WebhookTarget.open();
    const webhook = encodeURIComponent(target.url);
    const { json: ran } = await test.call(
      "hello",
      { name: "Ada" },
      { suffix: `?webhookEndpoint=${webhook}` },
    );
    await test.service.settle();
    const run_id: string = ran.run_id;

    const account = await site.call("createServiceAccount", {}, { body: { name: "ci" } });
    const id: string = account.json.id;
    const page = { name: "page", role: "call", apps: ["app"] };
    const { json: caller } = await site.call("createServiceAccount", {}, { body: page });
    await site.call("createUserToken", { id: String(caller["id"]) }, { body: { user: "ada" } });
    await site.call("listServiceAccounts");
    await site.call("updateServiceAccount", { id }, { body: { name: "ci 2", description: "for tests" } });
    await site.call("rotateServiceAccount", { id });
    await site.call("deleteServiceAccount", { id });

    expect((await site.call("listProjects")).json).toEqual([{ id: site.projectId, name: "default" }]);
    const made = await site.call("createProject", {}, { as: "owner", body: { name: "second" } });
    expect((await site.call("listProjects", {}, { as: "owner" })).json).toContainEqual(made.json);
    await site.call("updateProject", {}, { body: { quotas: { concurrentRuns: 1_000 } } });
    expect((await site.call("getProject")).json).toMatchObject({ quotas: { concurrentRuns: 1_000 } });
    await site.call("updateProject", {}, { body: { quotas: null } });
    await site.call("listMembers");
    const email = "eve@example.com";
    const revoked = await site.call("createInvitation", {}, { body: { email } });
    await site.call("listInvitations");
    await site.call("revokeInvitation", { invitation_id: revoked.json.id });
    const invite = async (): Promise<string> => {
      const { json } = await site.call("createInvitation", {}, { body: { email, role: "owner" } });
      return String(json.inviteUrl).split("#")[1] ?? "";
    };
    const link = await invite();
    await site.call("readInvitation", {}, { as: "nobody", body: { link } });
    const password = "the words of eve";
    const { json: eve } = await site.call("signUp", {}, { as: "nobody", body: { link, email, password } });
    await site.call("joinProject", {}, { as: "member", body: { link: await invite() } });
    const person_id: string = eve.personId;
    const { json: linked } = await site.call(
      "makePasswordLink",
      {},
      { as: "owner", body: { personId: person_id } },
    );
    const { json: nodes } = await site.call("listNodes", {}, { as: "owner" });
    const stay = { as: "owner", body: { state: "live" } } as const;
    await site.call("changeNode", { node_id: nodes[0].id }, stay);
    expect((await site.call("getIsolation", {}, { as: "owner" })).json).toMatchObject({ lastEscape: null });
    const chosen = { link: String(linked.url).split("#")[1], password: "other words of eve" };
    await site.call("acceptPasswordLink", {}, { as: "nobody", body: chosen });
    await site.call("changeMember", { person_id }, { body: { role: "member" } });
    await site.call("removeMember", { person_id });

    expect((await site.call("listApps", {}, { as: "run" })).json).toMatchObject([
      { id: app_id, status: "ready" },
    ]);
    expect((await site.call("getApp", { app_id })).json).toMatchObject({
      cpu: "2",
      memory: "4",
      gpuCount: "0",
      cooldownPeriodSeconds: "30",
      minReplicaCount: "0",
      responseGracePeriodSeconds: "900",
      lastBuildStatus: "success",
    });
    expect((await site.call("listContainers", { app_id })).json).toMatchObject([
      {
        appId: app_id,
        containerState: "RUNNING",
        pendingReason: null,
        setupMs: null,
        isTerminating: false,
        containerRestartCount: 0,
      },
    ]);
    expect((await site.call("getAppGpus", { app_id })).json).toMatchObject({ stepMs: 10_000, gpus: [] });
    const listed = await site.call("listRuns", { app_id });
    expect(listed.json).toMatchObject({
      items: [{ id: run_id, status: "success", async: false }],
      nextToken: "",
    });
    expect((await site.call("listProjectRuns")).json).toEqual(listed.json);
    expect((await site.call("getRun", { app_id, run_id })).json.item).toEqual(listed.json.items[0]);
    const many = { action: "retry", filter: { status: "failure" } };
    expect((await site.call("countBulkRuns", { app_id }, { body: many })).json).toEqual({
      count: 0,
      exact: true,
    });
    const { json: bulk } = await site.call("startBulkJob", { app_id }, { body: many });
    await site.call("getBulkJob", { app_id, job_id: bulk.item.id });
    await site.call("cancelBulkJob", { app_id, job_id: bulk.item.id });
    expect((await site.call("listBulkJobs", { app_id })).json.items).toHaveLength(1);
    expect((await site.call("getQueueHistory", { app_id })).json.steps).toHaveLength(360);
    expect((await site.call("listLogs", { app_id, runId: run_id })).json).toMatchObject({
      logs: [{ logLine: "hello Ada", stream: "stdout" }],
      hasMore: false,
    });

    expect((await site.call("getFigures", { app_id })).json).toMatchObject({
      total: { runs: 1, success: 1, errorRate: 0 },
      isPartial: false,
    });
    expect((await site.call("getUsage", { groupBy: "app,day" })).json.items).toMatchObject([
      { appId: app_id, calls: 1, succeeded: 1, requestBytes: 14, replicas: {} },
    ]);
    expect((await site.call("getTraffic")).json.items).toMatchObject([{ appId: app_id, version: 1 }]);

    const begun = await site.call("beginDeploy", {}, { body: { name: "deployed" } });
    const deployed = { app_id: `${site.projectId}-deployed` };
    const bundle = await zipOf({ "main.py": MAIN });
    const send = new URL(begun.json.uploadUrl).searchParams.get("grant") ?? "";
    await site.call("putBundle", { grant: send }, { as: "nobody", body: bundle });
    const build_id: string = begun.json.buildId;
    const isBuilt = async () =>
      (await site.call("getBuild", { ...deployed, build_id })).json.status === "success";
    await until("the build succeeds", isBuilt);
    expect((await site.call("listBuildLogs", { ...deployed, build_id })).json.logs[0]).toEqual({
      id: expect.any(String),
      createdAt: expect.any(String),
      log: expect.stringContaining("received"),
    });
    await site.call("dryRunDeploy", { name: "deployed" }, { body: bundle });
    await site.call("deploy", { name: "deployed" }, { body: bundle });
    const waiting = await site.call("beginDeploy", {}, { body: { name: "deployed" } });
    await site.call("cancelBuild", { ...deployed, build_id: waiting.json.buildId });
    expect((await site.call("getBuildChanges", { ...deployed, build_id })).json).toEqual({
      before: null,
      sameFiles: null,
      changes: [],
    });
    expect((await site.call("listBuilds", deployed)).json).toMatchObject([
      { status: "cancelled", version: null, isServing: false },
      { status: "success", version: 2, isServing: true },
      { id: build_id, version: 1, isServing: false },
    ]);
    await site.call("changeApp", deployed, { body: { cooldownPeriodSeconds: 9 } });
    const { json: configuration } = await site.call("getConfiguration", deployed);
    expect(configuration.keys).toContainEqual(
      expect.objectContaining({ key: "scaling.cooldown", value: 9, deployed: 30, unit: "seconds" }),
    );
    await site.call("rollBackApp", deployed, { body: { buildId: build_id } });
    await site.call("restartApp", deployed);
    await site.call("deleteApp", deployed);

    const files = { app_id: `${site.projectId}-files` };
    await site.call("createRunApp", files);
    await site.call("makeBaseImage", files, { body: {} });
    await site.call("runFile", { ...files, filename: "a.py" }, { body: formOf(tarOf({ "a.py": "" })) });

    await site.call("replaceProjectSecrets", {}, { body: { KEY: "value" } });
    expect((await site.call("getProjectSecrets")).json).toEqual({ KEY: "value" });
    await site.call("replaceAppSecrets", { app_id }, { body: { OTHER: "" } });
    expect((await site.call("getAppSecrets", { app_id })).json).toEqual({ OTHER: "" });

    await site.call("pauseQueue", { app_id });
    expect((await site.call("getQueue", { app_id })).json).toMatchObject({ item: { state: "paused" } });
    await site.call("drainQueue", { app_id });
    await site.call("resumeQueue", { app_id });

    const schedule = { app_id, schedule_name: "run" };
    await site.call("createSchedule", { app_id }, { body: { cron: "0 0 1 1 *", paused: true } });
    await site.call("runSchedule", schedule);
    await site.call("changeSchedule", schedule, { body: { input: { name: "Eve" } } });
    expect((await site.call("listSchedules", { app_id })).json).toMatchObject({ items: [{ name: "run" }] });
    await site.call("getSchedule", schedule);
    await site.call("deleteSchedule", schedule);

    const lines = await fetch(`${service().url("hello")}/batches`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${service().service.owner.token}`,
        "content-type": "application/jsonl",
      },
      body: "{}\n",
    });
    const { id: batch_id } = (await lines.json()) as { id: string };
    expect((await site.call("listBatches", { app_id })).json).toMatchObject({ items: [{ id: batch_id }] });
    expect((await site.call("getBatch", { app_id, batch_id })).json).toMatchObject({ item: { total: 1 } });

    const file_path = "models/a.bin";
    const { json: upload } = await site.call(
      "beginUpload",
      {},
      { body: { file_path, part_count: 1, region: "x" } },
    );
    const grant = new URL(upload.parts[0].url).searchParams.get("grant") ?? "";
    const put = await site.call("putPart", { part_number: "1", grant }, { as: "nobody", body: "bytes" });
    const parts = [{ part_number: 1, etag: put.headers.get("etag") }];
    const completed = { upload_id: upload.upload_id, file_path, parts, region: "x" };
    await site.call("completeUpload", {}, { body: completed });
    await site.call("listFiles", { dir: "models" });
    const offered = await site.call("offerFile", { file_path });
    const download = new URL(offered.json.url).searchParams.get("grant") ?? "";
    expect((await site.call("readFile", { grant: download }, { as: "nobody" })).text).toBe("bytes");
    await site.call("removeFile", { file_path });

    const secret = await site.call("createWebhookSecret");
    await site.call("listWebhookSecrets");
    await site.call("deleteWebhookSecret", { id: secret.json.id });
    await until("the webhook was delivered", () => target.received.length === 1);
    const isDelivered = async () =>
      (await site.call("listDeliveries", { state: "delivered" })).json.items[0]?.id === run_id;
    await until("the delivery is on record", isDelivered);
    expect((await site.call("getDelivery", { id: run_id })).json.item.attempts).toHaveLength(1);
    await site.call("redeliverOne", { id: run_id });
    const span = { from: "2020-01-01T00:00:00Z", to: "2020-01-02T00:00:00+02:00" };
    expect((await site.call("redeliverMany", {}, { body: span })).json).toEqual({ redelivered: 0 });

    await site.call("listAudit");
    const credentials = { email: "ada@example.com", password: "correct horse battery" };
    const signedIn = await site.call("signIn", {}, { as: "nobody", body: credentials });
    const [cookie = ""] = (signedIn.headers.get("set-cookie") ?? "").split(";");
    await site.call("refreshSession", {}, { as: "nobody", headers: { cookie } });
    await site.call("signOut", {}, { as: "nobody" });
    await site.call("getMe", {}, { as: "owner" });
    const { json: sessions } = await site.call("listSessions", {}, { as: "owner" });
    const other = sessions.find(({ isCurrent }: { isCurrent: boolean }) => !isCurrent);
    await site.call("endSession", { session_id: other.id }, { as: "owner" });
    const { json: device } = await site.call("askForDevice", {}, { as: "nobody" });
    const { device_code, user_code } = device.deviceAuthResponsePayload;
    const pending = await site.ask("POST", "/token", { as: "nobody", body: { device_code } });
    expect([pending.status, pending.text]).toEqual([400, '{"error":"authorization_pending"}']);
    site.check("redeemToken", pending);
    await site.call("approveDevice", {}, { as: "owner", body: { user_code } });
    await site.call("redeemToken", {}, { as: "nobody", body: { device_code } });
    const passwords = { currentPassword: credentials.password, newPassword: "another good one" };
    await site.call("changePassword", {}, { as: "owner", body: passwords });
    const address = { email: "ada@other.example", password: passwords.newPassword };
    await site.call("changeEmail", {}, { as: "owner", body: address });

    await site.call("getPublicKeys", {}, { as: "nobody" });
    await site.call("listHardware", {}, { as: "run" });
    await site.call("listGpus", {}, { as: "owner" });
    expect((await site.call("listNotifications", {}, { as: "nobody" })).json).toEqual([]);

    // Always refused; done when the site was opened; or with mail.
    const elsewhere = ["beginPartnerDeploy", "setUp", "forgotPassword", "askForProof", "proveEmail"];
    const missing = site.operations.map(({ id: name }) => name).filter((name) => !site.succeeded.has(name));
    expect(missing).toEqual(elsewhere);
  },
);
