import { beforeAll, expect, test } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService();
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

verifies(
  ["management.openapi", "management.openapi.version"],
  "the document is OpenAPI 3.1, of version 1.0.0, and needs no token",
  async () => {
    const { status, headers, json } = await site.ask("GET", "/openapi.json", { as: "nobody" });
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringContaining("application/json")]);
    expect(json.openapi).toMatch(/^3\.1\./);
    expect(json.info.version).toBe("1.0.0");
    const ids = site.operations.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { id, path, parameters, responses } of site.operations) {
      const inPath = parameters.filter((parameter) => parameter.in === "path").map(({ name }) => name);
      expect([id, inPath]).toEqual([id, [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)]);
      expect([id, Object.keys(responses)]).toEqual([id, expect.arrayContaining(["200", "500", "503"])]);
    }
  },
);

verifies("management.openapi.seed", "creating a service account is described as the seed has it", () => {
  const { post } = site.document.paths["/v2/projects/{project_id}/service-accounts"];
  expect(post.summary).toBe("Create a new service account for the project");
  expect(post.parameters).toMatchObject([
    { name: "project_id", in: "path", required: true, schema: { type: "string" } },
  ]);
  expect(post.security).toEqual([{ bearerAuth: [] }]);
  expect(post.responses["200"].description).toBe("OK");
  expect(site.document.components.securitySchemes.bearerAuth).toMatchObject({
    type: "http",
    scheme: "bearer",
  });
  const projectPaths = Object.keys(site.document.paths).filter((path) => path.startsWith("/v2/projects/"));
  expect(projectPaths.filter((path) => !path.startsWith("/v2/projects/{project_id}"))).toEqual([]);
});

test("each operation keeps its group, after which generated clients name their classes", () => {
  expect(
    [...new Set(site.operations.map(({ tags }) => tags[0]))].toSorted((a = "", b = "") => a.localeCompare(b)),
  ).toEqual([
    "Apps",
    "Audit",
    "Batches",
    "Builds",
    "Deploys",
    "Figures",
    "File runs",
    "Installation",
    "Logs",
    "Members",
    "Projects",
    "Queues",
    "Runs",
    "Schedules",
    "Secrets",
    "Service accounts",
    "Sign-in",
    "Usage",
    "Volumes",
    "Webhooks",
  ]);
  const { get } = site.document.paths["/v2/projects/{project_id}/audit"];
  expect(get.tags).toEqual(["Audit"]);
});

test("a clone without a built dashboard or guide says how to build them", async () => {
  for (const [path, script] of [
    ["/docs", "npm run build:web"],
    ["/guide/", "npm run build:guide"],
  ] as const) {
    const page = await site.ask("GET", path, { as: "nobody" });
    expect([path, page.status, page.text]).toEqual([path, 503, expect.stringContaining(script)]);
  }
});

test("an answer is found that has a status, a member or a type which the document does not know", async () => {
  const answer = await site.ask("GET", "/v2/projects");
  site.check("listProjects", answer);
  expect(() => site.check("listProjects", { ...answer, status: 418 })).toThrow("answered 418");
  const more = [{ ...answer.json[0], more: 1 }];
  expect(() => site.check("listProjects", { ...answer, json: more })).toThrow("Unrecognized key");
  expect(() => site.check("listProjects", { ...answer, json: [{ id: 1, name: "" }] })).toThrow(
    "expected string",
  );
  expect(() => site.check("listProjects", { ...answer, headers: new Headers() })).toThrow("does not know");
});
