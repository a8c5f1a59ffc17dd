import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseRoute, Router } from "../../../src/gateway/route.ts";
import { APP_NAME, FUNCTION_NAME, PROJECT_ID } from "../../../src/model/names.ts";

const OTHER = { kind: "path", projectId: "p-1", appName: "app" };

describe("the route of a target", () => {
  test("has project, app, function and query as they stand in it", () => {
    expect(parseRoute("/v4/p-1/app/run?async=true&a=/x")).toEqual({
      kind: "call",
      projectId: "p-1",
      appName: "app",
      functionName: "run",
      isBare: false,
      isModels: false,
      query: "async=true&a=/x",
    });
    expect(parseRoute("/v4/p-1/app/run")).toMatchObject({ query: "" });
    expect(parseRoute("/v4/p-1/app/run?")).toMatchObject({ query: "" });
    expect(parseRoute("/v4/p-1/app/run/v1/x")).toMatchObject({ isBare: true });
    expect(parseRoute("/v4/p-1/app/run/models?x=1")).toMatchObject({ isBare: true, isModels: true });
    expect(parseRoute("/v4/p-1/app/run/v1/models")).toMatchObject({ isModels: false });
  });

  test("of an app's document is its own", () => {
    const route = { kind: "document", projectId: "p-1", appName: "app" };
    expect(parseRoute("/v4/p-1/app/openapi.json")).toEqual(route);
    expect(parseRoute("/v4/p-1/app/openapi.json?x=1")).toEqual(route);
  });

  test("of a run has its id and what is to be done", () => {
    const runId = "0197c3a0-7e1b-7abc-8def-0123456789ab";
    const route = { kind: "run", projectId: "p-1", appName: "app", runId };
    expect(parseRoute(`/v4/p-1/app/runs/${runId}`)).toEqual({ ...route, action: "record" });
    for (const action of ["input", "result", "events", "cancel"]) {
      expect(parseRoute(`/v4/p-1/app/runs/${runId}/${action}?x`)).toEqual({ ...route, action });
    }
    const wrong = [
      "",
      "x",
      "x/cancel",
      `${runId}/`,
      `${runId}/cancel/`,
      `${runId}/cancel/x`,
      `${runId}/record`,
    ];
    for (const path of [...wrong, runId.toUpperCase(), `${runId}/Events`, `${runId}0`]) {
      expect([path, parseRoute(`/v4/p-1/app/runs/${path}`)]).toEqual([path, OTHER]);
    }
  });

  test("is found for every name there may be, and gives the names back", () => {
    const name = (pattern: RegExp) => fc.stringMatching(pattern);
    fc.assert(
      fc.property(
        name(PROJECT_ID),
        name(APP_NAME),
        name(FUNCTION_NAME),
        (projectId, appName, functionName) => {
          fc.pre(functionName !== "runs");
          const route = parseRoute(`/v4/${projectId}/${appName}/${functionName}`);
          expect(route).toMatchObject({ projectId, appName, functionName, isBare: false });
        },
      ),
    );
  });

  test("is none where the app is missing, doubled, encoded or of another version", () => {
    for (const target of [
      "",
      "*",
      "/",
      "/v4",
      "/v4/p-1",
      "//v4/p-1/app/run",
      "/v4//p-1/app/run",
      "/v3/p-1/app/run",
      "/v4/x-1/app/run",
      "/v4/p-1/App/run",
      "/v4/p-1/../p-1/app/run",
      "http://x/v4/p-1/app/run",
    ]) {
      expect([target, parseRoute(target)]).toEqual([target, null]);
    }
  });

  test("is some other path of the app where no function can have it: a server may", () => {
    for (const path of [
      "",
      "/",
      "/run/",
      "/run//x",
      "/_run",
      "/%72un",
      "/runs",
      "/openapi.json/",
      "/openapi.json/x",
      "/openapi.JSON",
      "/run/a b",
      '/run/"',
    ]) {
      expect([path, parseRoute(`/v4/p-1/app${path}`)]).toEqual([path, OTHER]);
    }
  });
});

describe("the router", () => {
  test("gives what parseRoute gives, the first time and again", () => {
    const router = new Router();
    const targets = [
      "/v4/p-1/app/run",
      "/v4/p-1/app/run?a",
      "/nothing",
      `/v4/p-1/app/run?${"a".repeat(600)}`,
    ];
    for (const target of [...targets, ...targets]) expect(router.route(target)).toEqual(parseRoute(target));
  });

  test("stays right when more targets come than it remembers", () => {
    const router = new Router();
    for (let i = 0; i < 10_000; i++) {
      expect(router.route(`/v4/p-1/app/f${i}`)).toMatchObject({ functionName: `f${i}` });
    }
    expect(router.route("/v4/p-1/app/f0")).toMatchObject({ functionName: "f0" });
  });
});
