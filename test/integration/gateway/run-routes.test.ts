import { describe, expect, test } from "vitest";
import { RUNS_MAIN } from "../../support/run-apps.ts";
import type { Answer } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openEvents } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({
  app: { main: RUNS_MAIN },
  other: { main: RUNS_MAIN },
  open: { main: RUNS_MAIN, toml: "[deployment]\ndisable_auth = true\n" },
});

const ACTIONS = ["", "input", "result", "events"];
const UNKNOWN = "01900000-0000-7000-8000-000000000000";
const told = ({ status, json }: Answer): unknown[] => [status, json.code];

async function aRun(app: string): Promise<string> {
  const { json } = await service().call(app, { value: 1 }, { functionName: "echo", token: null });
  if (json.run_id) return json.run_id as string;
  return (await service().call(app, { value: 1 }, { functionName: "echo" })).json.run_id as string;
}

describe("what is known of a run", () => {
  verifies("runs.token", "is told with a token only, also of a public app's runs", async () => {
    for (const app of ["app", "open"]) {
      const id = await aRun(app);
      for (const action of ACTIONS) {
        for (const token of [null, "no-token"]) {
          const answer = await service().ofRun(app, id, action, { token });
          expect([action, ...told(answer)]).toEqual([action, 401, "unauthorized"]);
          expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
        }
        expect((await service().ofRun(app, id, action)).status).toBe(200);
      }
    }
  });

  test("is 405 by any other method, with the one that is allowed", async () => {
    const id = await aRun("app");
    for (const action of ACTIONS) {
      for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
        const answer = await service().ofRun("app", id, action, { method });
        expect([...told(answer), answer.headers.get("allow")]).toEqual([405, "method_not_allowed", "GET"]);
      }
    }
  });

  test("is nothing of a run that is not there, of another app's, or of an app that is not there", async () => {
    const id = await aRun("app");
    for (const action of ACTIONS) {
      expect(told(await service().ofRun("app", UNKNOWN, action))).toEqual([404, "run_not_found"]);
      expect(told(await service().ofRun("other", id, action))).toEqual([404, "run_not_found"]);
      expect(told(await service().ofRun("none", id, action))).toEqual([404, "app_not_found"]);
    }
    await service().service.settle();
    for (const action of ACTIONS) {
      expect(told(await service().ofRun("other", id, action))).toEqual([404, "run_not_found"]);
      expect((await service().ofRun("app", id, action)).status).toBe(200);
    }
    for (const path of [
      "",
      "x",
      `${id}x`,
      id.toUpperCase(),
      `${id}/record`,
      `${id}/result/x`,
      `${id}/events/`,
    ]) {
      expect([path, ...told(await service().ofRun("app", path))]).toEqual([path, 404, "not_found"]);
    }
  });

  test("cannot be resumed from what is no number", async () => {
    const id = await aRun("app");
    for (const value of ["x", "-1", "1.5", "1e3", "0x1", " ", "9".repeat(16), "1,2"]) {
      const answer = await service().ofRun("app", id, "events", { headers: { "last-event-id": value } });
      expect([value, ...told(answer)]).toEqual([value, 400, "bad_request"]);
    }
  });

  test("may be asked for by a page of any origin", async () => {
    const id = await aRun("app");
    for (const action of ACTIONS) {
      const { headers } = await service().ofRun("app", id, action, { headers: { origin: "https://a.test" } });
      expect(headers.get("access-control-allow-origin")).toBeTruthy();
    }
    const { status, headers } = await service().ofRun("app", id, "events", {
      method: "OPTIONS",
      token: null,
      headers: {
        origin: "https://a.test",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization, last-event-id",
      },
    });
    expect(status).toBe(204);
    expect(headers.get("access-control-allow-headers")).toContain("last-event-id");
  });

  test("carries a request id of its own", async () => {
    const id = await aRun("app");
    for (const action of ACTIONS) {
      const { headers } = await service().ofRun("app", id, action);
      expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
      expect(headers.get("x-request-id")).not.toBe(id);
    }
    expect((await openEvents(service(), "app", id).ended()).runId).not.toBe(id);
  });
});
