import { describe, expect, test } from "vitest";
import { PROJECT_ID } from "../../../src/model/names.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { sharedService } from "../../support/shared-service.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def run():
    return "run of " + __import__("os").environ["PROJECT_ID"]

def other_2(**members):
    return ["other", members]

def runs():
    return "a function that the path hides"
`;

const service = sharedService({ app: { main: MAIN } });

/** Asks for a path as it is written; the token and an empty body are right. */
async function post(target: string, method = "POST") {
  const { apiUrl, owner } = service().service;
  const response = await fetch(apiUrl + target, {
    method,
    headers: { authorization: `Bearer ${owner.token}` },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, code: /"code":"(\w+)"/.exec(text)?.[1] };
}

function project(): string {
  return service().service.owner.projectId;
}

verifies(
  ["run.route", "run.route.v4"],
  "POST /v4/{project_id}/{app_name}/run calls the function run",
  async () => {
    expect((await post(`/v4/${project()}/app/run`)).text).toContain(`"result":"run of ${project()}"`);
    for (const version of ["v3", "v5", "v44", "V4", "v04"]) {
      const { status } = await post(`/${version}/${project()}/app/run`);
      expect([version, status]).toEqual([version, 404]);
    }
  },
);

verifies("run.route.any-function", "the last segment names the function", async () => {
  const answer = await service().call("app", { a: 1 }, { functionName: "other_2" });
  expect(answer.json.result).toEqual(["other", { a: 1 }]);
});

verifies("run.reserved", "runs/{uuid}, runs and openapi.json never reach a function", async () => {
  const uuid = "0197c3a0-7e1b-7abc-8def-0123456789ab";
  // By POST and by GET. There is no run of that id, and no list of runs; the document can be read.
  for (const [end, statuses] of [
    ["runs", [404, 404]],
    [`runs/${uuid}`, [405, 404]],
    [`runs/${uuid}/cancel`, [404, 405]],
    ["openapi.json", [405, 200]],
  ] as const) {
    for (const [i, method] of ["POST", "GET"].entries()) {
      const { status } = await post(`/v4/${project()}/app/${end}`, method);
      expect([method, end, status]).toEqual([method, end, statuses[i]]);
    }
  }
});

describe("a sub-path", () => {
  verifies(
    ["run.sub-path", "run.sub-path.bare"],
    "reaches the same function and answers with the bare result",
    async () => {
      for (const suffix of ["/chat/completions", "/v1/embeddings", "/a", "/a%20b/c?x=1"]) {
        const answer = await service().call("app", { a: 1 }, { functionName: "other_2", suffix });
        expect([answer.status, answer.text]).toEqual([200, '["other",{"a":1}]']);
        expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
      }
    },
  );

  test("that fails answers with the usual error", async () => {
    const answer = await service().call("app", { a: 1 }, { suffix: "/v1/embeddings" });
    expect([answer.status, answer.json.code]).toEqual([422, "invalid_arguments"]);
  });
});

describe("nothing is there", () => {
  verifies(
    "errors.404.route",
    "at an unknown address, whatever the method; below an app only for a token that may call it",
    async () => {
      const { apiUrl, owner } = service().service;
      const known = `/v4/${project()}/app`;
      const below = ["", "/", "/run/", "/run//x", "/run%2F", "/ru-n", "/%72un"].map((rest) => known + rest);
      for (const target of [
        "/",
        "/v4",
        `/v4/${project()}`,
        ...below,
        `/v4//${project()}/app/run`,
        `/v4/${project()}/app%2Frun`,
        `/v4/${project()}/APP/run`,
        "/metrics",
        "/livez",
      ]) {
        for (const method of ["POST", "GET", "DELETE"]) {
          const headers = { authorization: `Bearer ${owner.token}` };
          const answer = await fetch(apiUrl + target, { method, headers });
          expect([target, answer.status]).toEqual([target, 404]);
          expect(await answer.json()).toMatchObject({ code: "not_found" });
          // Otherwise anyone could learn which apps there are.
          const { status } = await fetch(apiUrl + target, { method });
          expect([target, status]).toEqual([target, below.includes(target) ? 401 : 404]);
        }
      }
    },
  );

  verifies("project.id", "where the project's id does not begin with p-", async () => {
    for (const id of ["12345678", "q-12345678", "P-12345678", "p_12345678", "p-", project().slice(1)]) {
      expect(await post(`/v4/${id}/app/run`)).toMatchObject({ status: 404, code: "not_found" });
    }
  });

  verifies("project.id.minted", "ids are p- and 8 lower-case letters or digits", () => {
    expect(project()).toMatch(/^p-[a-z0-9]{8}$/);
    expect(project()).toMatch(PROJECT_ID);
  });

  verifies("errors.404.app", "where the project has no such app", async () => {
    expect(await post(`/v4/${project()}/nothing/run`)).toMatchObject({ status: 404, code: "app_not_found" });
  });

  verifies("errors.404.function", "where the app has no such function, warm or cold", async () => {
    const cold = await service().deploy("cold", { main: "def run():\n    return 1\n" });
    expect(cold.pool.functions).toBeNull();
    for (const app of ["cold", "app"]) {
      await post(`/v4/${project()}/${app}/run`);
      const answer = await post(`/v4/${project()}/${app}/nothing`);
      expect(answer).toMatchObject({ status: 404, code: "function_not_found" });
    }
    const colder = await service().deploy("colder", { main: "def run():\n    return 1\n" });
    expect(colder.pool.functions).toBeNull();
    expect(await post(`/v4/${project()}/colder/nothing`)).toMatchObject({ code: "function_not_found" });
  });

  verifies("errors.404.function.names", "and the message lists those it has, warm or cold", async () => {
    const main = "def run():\n    return 1\n\ndef count():\n    return 2\n";
    const { pool } = await service().deploy("misspelt", { main });
    const message = "The app has no such function; it has run, count.";
    const ask = async (suffix = ""): Promise<string> => {
      const { text } = await post(`/v4/${project()}/misspelt/nothing${suffix}`);
      return (JSON.parse(text) as { message: string }).message;
    };
    expect(pool.functions).toBeNull();
    // The first call starts the replica that knows.
    expect(await ask()).toBe(message);
    expect(await ask()).toBe(message);
    const { pool: colder } = await service().deploy("misspelt", { main: `${main}\n# another version\n` });
    expect(colder.functions).toBeNull();
    expect(await ask("?async=true")).toBe(message);
    await service().deploy("misspelt", { main: "x = 1\n" });
    expect(await ask()).toBe("The app has no callable functions.");
    const many = Array.from({ length: 25 }, (_, n) => `def f${n}():\n    return ${n}\n`).join("\n");
    await service().deploy("misspelt", { main: many });
    expect(await ask()).toMatch(/; it has f0, f1, .*, f19 and 5 more\.$/);
  });

  verifies("errors.405", "for another method than POST: 405 and Allow", async () => {
    for (const method of ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]) {
      const answer = await post(`/v4/${project()}/app/run`, method);
      expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "POST"]);
    }
  });

  verifies("errors.405.how", "and the answer to a GET says how to call the function", async () => {
    const { text } = await post(`/v4/${project()}/app/other_2`, "GET");
    expect(JSON.parse(text)).toMatchObject({
      code: "method_not_allowed",
      message: expect.stringMatching(
        /^Call other_2 with POST and its arguments as a JSON object, such as curl -X POST /,
      ),
    });
  });

  verifies("run.sub-path.models", "GET …/run/models lists the app as a model", async () => {
    const { status, text } = await post(`/v4/${project()}/app/run/models`, "GET");
    expect([status, JSON.parse(text)]).toEqual([
      200,
      {
        object: "list",
        data: [{ id: "app", object: "model", created: expect.any(Number), owned_by: project() }],
      },
    ]);
    // By POST it is a sub-path like any other.
    expect((await post(`/v4/${project()}/app/run/models`)).text).toBe(`"run of ${project()}"`);
    const wrong = await post(`/v4/${project()}/app/run/models`, "PUT");
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, POST"]);
    expect(await post(`/v4/${project()}/app/nothing/models`, "GET")).toMatchObject({ status: 404 });
    await service().deploy("unasked", { main: MAIN });
    expect(await post(`/v4/${project()}/unasked/v1/models`, "GET")).toMatchObject({ status: 404 });
    const stranger = await fetch(`${service().service.apiUrl}/v4/${project()}/app/run/models`);
    expect(stranger.status).toBe(401);
  });
});

verifies(
  "app.name.within-project",
  "two projects may each have an app of one name, each is reached",
  async () => {
    const { store, tokens, owner, apiUrl, baseUrl } = service().service;
    await store.projects.insert({ id: "p-second", name: "second", createdAt: Date.now() });
    const expiresAt = Date.now() + 3_600_000;
    const { token } = await tokens.issue({ projectId: "p-second", name: "x", role: "admin", expiresAt });
    const client = new DeployClient({ baseUrl, projectId: "p-second", token }, "app");
    const second = await zipOf({ "main.py": 'def run():\n    return "the second"\n' });
    expect(await client.deploy(second)).toMatchObject({ status: "success" });
    const call = async (projectId: string, bearer: string): Promise<string> => {
      const headers = { authorization: `Bearer ${bearer}` };
      const answer = await fetch(`${apiUrl}/v4/${projectId}/app/run`, { method: "POST", headers });
      return ((await answer.json()) as { result: string }).result;
    };
    expect(await call(owner.projectId, owner.token)).toBe(`run of ${owner.projectId}`);
    expect(await call("p-second", token)).toBe("the second");
  },
);
