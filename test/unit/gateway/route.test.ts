import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Router, parseRoute, readQuery, readTarget } from "../../../src/gateway/route.ts";
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
      isBatches: false,
      openAi: null,
      query: "async=true&a=/x",
    });
    expect(parseRoute("/v4/p-1/app/run")).toMatchObject({ query: "" });
    expect(parseRoute("/v4/p-1/app/run?")).toMatchObject({ query: "" });
    expect(parseRoute("/v4/p-1/app/run/v1/x")).toMatchObject({ isBare: true });
    expect(parseRoute("/v4/p-1/app/run/models?x=1")).toMatchObject({ isBare: true, isModels: true });
    expect(parseRoute("/v4/p-1/app/run/v1/models")).toMatchObject({ isModels: false });
    expect(parseRoute("/v4/p-1/app/run/batches?tag=a")).toMatchObject({ kind: "call", isBatches: true });
  });

  test("may be of an app's batches, or of one of them", () => {
    const id = "0190a000-0000-7000-8000-000000000000";
    const batches = { kind: "batch", projectId: "p-1", appName: "app" };
    const list = { ...batches, batchId: null, action: "list", query: "pageSize=2" };
    expect(parseRoute("/v4/p-1/app/batches?pageSize=2")).toEqual(list);
    expect(parseRoute(`/v4/p-1/app/batches/${id}`)).toMatchObject({ batchId: id, action: "record" });
    for (const action of ["results", "cancel", "retry"])
      expect(parseRoute(`/v4/p-1/app/batches/${id}/${action}`)).toMatchObject({ ...batches, action });
    for (const path of ["batches/", "batches/x", `batches/${id}/x`, `batches/${id}/results/x`])
      expect(parseRoute(`/v4/p-1/app/${path}`)).toMatchObject({ kind: "path" });
  });

  test("of OpenAI's Batch API names the file or batch, also below v1", () => {
    const openAi = (path: string) => {
      const route = parseRoute(`/v4/p-1/app/${path}`);
      return route?.kind === "call" ? route.openAi : undefined;
    };
    const file = { what: "files", id: "file-1", action: null };
    expect(openAi("run/files")).toEqual({ ...file, id: null });
    expect(openAi("run/v1/files/file-1")).toEqual(file);
    expect(openAi("run/files/file-1/content")).toEqual({ ...file, action: "content" });
    expect(openAi("v1/batches/b/cancel")).toEqual({ what: "batches", id: "b", action: "cancel" });
    for (const other of [
      "files/f/cancel",
      "batches/b/content",
      "files/f/content/x",
      "v1/v1/files",
      "v1",
      "chat",
    ])
      expect(openAi(`run/${other}`)).toBeNull();
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

const PLAIN = { isAsync: false, webhookEndpoint: null };

test("a query without our parameters asks for nothing", () => {
  for (const query of ["", "a=1", "Async=true", "async%5B%5D=true", "xasync=true&asyncx=1"]) {
    expect([query, readQuery(query)]).toEqual([query, PLAIN]);
  }
});

test("async takes true or false, and nothing else", () => {
  expect(readQuery("async=true").isAsync).toBe(true);
  expect(readQuery("async=false").isAsync).toBe(false);
  expect(readQuery("a=1&%61sync=true").isAsync).toBe(true);
  for (const query of [
    "async",
    "async=",
    "async=TRUE",
    "async=1",
    "async=yes",
    "async=true%20",
    "async=+true",
  ]) {
    expect(() => readQuery(query)).toThrow("async must be true or false.");
  }
});

test("a parameter given twice is refused, even with the same value", () => {
  for (const query of ["async=true&async=true", "async=true&async=false", "async=false&%61sync=false"]) {
    expect(() => readQuery(query)).toThrow("async may be given only once.");
  }
  expect(() => readQuery("webhookEndpoint=a&webhookEndpoint=b")).toThrow(
    "webhookEndpoint may be given only once.",
  );
});

test("webhookEndpoint is decoded once", () => {
  expect(readQuery("webhookEndpoint=https%3A%2F%2Fa.example%2Fx%3Fy%3D%252F").webhookEndpoint).toBe(
    "https://a.example/x?y=%2F",
  );
});

test("what is ours is taken out of a POST's query, and the rest stays as it came", () => {
  expect(readTarget("/a?x=%20&async=true&y=1+2", "POST")).toEqual({
    target: "/a?x=%20&y=1+2",
    query: { isAsync: true, webhookEndpoint: null },
  });
  expect(readTarget("/a?webhookEndpoint=http%3A%2F%2Fx%2F&async=true", "POST")).toEqual({
    target: "/a",
    query: { isAsync: true, webhookEndpoint: "http://x/" },
  });
  expect(readTarget("/a?%61sync=true", "POST")).toMatchObject({ target: "/a", query: { isAsync: true } });
  expect(readTarget("/a?async=false&&", "POST")).toEqual({ target: "/a?&", query: PLAIN });
});

test("other queries and other methods are the app's alone", () => {
  for (const target of ["/a", "/a?", "/a?x=1", "/a?asynchronous=1", "/a?x=async"])
    expect(readTarget(target, "POST")).toEqual({ target, query: PLAIN });
  expect(readTarget("/a?async=maybe", "GET")).toEqual({ target: "/a?async=maybe", query: PLAIN });
  expect(() => readTarget("/a?async=maybe", "POST")).toThrow("async must be true or false");
});
