import { describe, expect, test } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { RUNS_MAIN, counted, letGo, runningId, stored } from "../../support/run-apps.ts";
import type { Answer, CallOptions } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const deployment = (lines: string): string => `[scaling]\nmax_replicas = 2\n[deployment]\n${lines}\n`;
const clock = new SkippingClock();
const service = sharedService(
  {
    app: { main: RUNS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" },
    nothing: { main: RUNS_MAIN, toml: deployment('record_payloads = "none"') },
    async: { main: RUNS_MAIN, toml: deployment('record_payloads = "async"') },
  },
  {},
  { clock },
);

const idOf = ({ headers }: Answer): string => headers.get("x-request-id") ?? "";
const call = (functionName: string, body: object | string = {}, options: CallOptions = {}, app = "app") =>
  service().call(app, body, { functionName, ...options });

/**
 * Looks at once, when the run may be on its way to the store, and again when it is there. A long one, whose parts
 * go there first, has to be named.
 */
async function twice(look: () => Promise<void>, longRun: string | null = null): Promise<void> {
  await look();
  if (longRun !== null) await stored(service(), "app", longRun);
  await service().service.settle();
  await look();
}

describe("GET …/runs/{id}", () => {
  verifies("runs.get", "is the record of a finished run, with its result", async () => {
    const answer = await call("echo", { value: { a: [1, "é"] } });
    await twice(async () => {
      const { status, headers, json } = await service().ofRun("app", idOf(answer));
      expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
      expect(headers.get("x-request-id")).not.toBe(idOf(answer));
      expect(json).toMatchObject({
        id: idOf(answer),
        projectId: service().service.owner.projectId,
        functionName: "echo",
        async: false,
        status: "success",
        statusCode: 200,
        error: null,
        result: { a: [1, "é"] },
      });
    });
  });

  verifies("runs.get", "is without a result while the run is under way", async () => {
    const answered = call("held", { gate: "get" });
    const id = await runningId(service(), "app", "held");
    const { json } = await service().ofRun("app", id);
    expect(json).toMatchObject({ id, status: "running", statusCode: null, completedAt: null, error: null });
    expect(json).not.toHaveProperty("result");
    letGo(service(), "app", "get");
    await answered;
    expect((await service().ofRun("app", id)).json).toMatchObject({ status: "success", result: "let go" });
  });

  verifies("runs.get", "has a result's own bytes: no number is rounded", async () => {
    const value = "[9007199254740993,1.0,-0.0,12345678901234567890123]";
    const answer = await call("echo", `{"value":${value}}`);
    await twice(async () => {
      expect((await service().ofRun("app", idOf(answer))).text).toContain(
        '"result":[9007199254740993,1.0,-0.0,12345678901234567890123]}',
      );
    });
  });

  verifies("runs.get", "has the bare result of a run called by a sub-path", async () => {
    const answer = await call("echo", { value: ',"run_time_ms":' }, { suffix: "/v1/x" });
    expect(answer.json).toBe(',"run_time_ms":');
    await twice(async () => {
      expect((await service().ofRun("app", idOf(answer))).json.result).toBe(',"run_time_ms":');
    });
  });

  verifies("runs.get", "has what a stream yielded as a list", async () => {
    for (const [functionName, body, result] of [
      ["values", {}, '["two\\nlines",{"a":[1,null]},9007199254740993,"","\\"quoted\\""]'],
      ["empty", {}, "[]"],
      ["broken", { upto: 2 }, '["m1","m2"]'],
    ] as const) {
      const { runId } = await openStream(service(), "app", body, { functionName }).ended();
      await twice(async () => {
        const { text } = await service().ofRun("app", runId);
        expect(text.endsWith(`,"result":${result}}`)).toBe(true);
      });
    }
  });

  verifies("runs.get", "has a long stream's list, part by part", async () => {
    const reader = openStream(service(), "app", { upto: 3_000, size: 200 }, { functionName: "count" });
    await reader.ended();
    await twice(async () => {
      expect((await service().ofRun("app", reader.runId)).json.result).toEqual(reader.data);
    }, reader.runId);
  });

  verifies("runs.get", "has null where a run failed, gave no body, or its result is not kept", async () => {
    const runs = [
      await call("fail"),
      await call("code", { code: 204 }),
      await call("code", { code: 304 }),
      await call("echo", { other: 1 }),
      await call("count", { upto: -1, size: "x" }, { headers: {} }),
      await call("echo", { value: "x".repeat(70_000) }),
    ];
    await twice(async () => {
      for (const [i, run] of runs.entries()) {
        const { json } = await service().ofRun("app", idOf(run));
        expect([i, json.result]).toEqual([i, i === 4 ? [] : null]);
      }
    });
  });

  verifies("runs.get", "has the result of a run that chose its status", async () => {
    const answer = await call("code", { code: 503 });
    await twice(async () => {
      expect((await service().ofRun("app", idOf(answer))).json).toMatchObject({
        status: "failure",
        statusCode: 503,
        error: null,
        result: { status_code: 503, why: "asked" },
      });
    });
  });
});

describe("GET …/input", () => {
  verifies("runs.input", "is the body as it came, byte for byte", async () => {
    const body = '{ "value" : 9007199254740993 }';
    const answer = await call("echo", body);
    const nothing = await call("echo", "");
    await twice(async () => {
      const input = await service().ofRun("app", idOf(answer), "input");
      expect([input.status, input.headers.get("content-type"), input.text]).toEqual([
        200,
        "application/json",
        body,
      ]);
      expect((await service().ofRun("app", idOf(nothing), "input")).text).toBe("{}");
    });
  });

  verifies("runs.input", "is there while the run is under way, and after it failed", async () => {
    const answered = call("held", { gate: "input" });
    const id = await runningId(service(), "app", "held");
    expect((await service().ofRun("app", id, "input")).json).toEqual({ gate: "input" });
    letGo(service(), "app", "input");
    await answered;
    const failed = await call("echo", { other: 1 });
    expect((await service().ofRun("app", idOf(failed), "input")).json).toEqual({ other: 1 });
  });
});

describe("GET …/result", () => {
  verifies("runs.result", "is the answer again: status, content type and bytes", async () => {
    const answers = [
      await call("echo", { value: { a: "é" } }),
      await call("echo", { value: [1] }, { suffix: "/chat/completions" }),
      await call("code", { code: 418 }),
      await call("code", { code: 204 }),
      await call("code", { code: 205 }),
      await call("code", { code: 304 }),
      await call("fail"),
      await call("echo", { other: 1 }),
    ];
    await twice(async () => {
      for (const answer of answers) {
        const again = await service().ofRun("app", idOf(answer), "result");
        expect([again.status, again.text]).toEqual([answer.status, answer.text]);
        expect(again.headers.get("content-type")).toBe(answer.headers.get("content-type"));
      }
    });
  });

  verifies("runs.result", "is the text of a stream as its caller got it", async () => {
    for (const functionName of ["values", "own", "empty"]) {
      const reader = await openStream(service(), "app", {}, { functionName }).ended();
      await twice(async () => {
        const { status, headers, text } = await service().ofRun("app", reader.runId, "result");
        expect([status, text]).toEqual([200, reader.text]);
        expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
      });
    }
  });

  verifies("runs.result", "of a long stream is whole", async () => {
    const body = { upto: 15_000, size: 150 };
    const reader = await openStream(service(), "app", body, { functionName: "count" }).ended();
    await twice(async () => {
      const { status, text } = await service().ofRun("app", reader.runId, "result");
      expect([status, text.length, text === reader.text]).toEqual([200, reader.text.length, true]);
    }, reader.runId);
  });

  verifies("runs.result", "of a stream that failed has the status it is recorded with", async () => {
    const reader = await openStream(service(), "app", { upto: 3 }, { functionName: "broken" }).ended();
    expect(reader.messages.at(-1)?.event).toBe("error");
    const silent = openStream(service(), "app", { gate: "late" }, { functionName: "late" });
    await clock.sets(1_000);
    clock.skip(1_000);
    await silent.hasHead();
    letGo(service(), "app", "late");
    await silent.ended();
    expect(silent.messages.map(({ event }) => event)).toEqual(["error"]);
    await twice(async () => {
      const { status, text } = await service().ofRun("app", reader.runId, "result");
      expect([status, text]).toEqual([500, reader.text]);
      // Nothing was yielded: it is an ordinary error.
      const { status: late, json } = await service().ofRun("app", silent.runId, "result");
      expect([late, json.code, json.message]).toEqual([500, "app_error", "ValueError: no"]);
    });
  });

  verifies("runs.result", "of a cancelled run is what its caller was told", async () => {
    const body = { gate: "never", before: 3, after: 0 };
    const reader = openStream(service(), "app", body, { functionName: "gated" });
    await reader.hasMessages(3);
    const answered = call("held", { gate: "never" });
    const held = await runningId(service(), "app", "held");
    for (const id of [reader.runId, held]) {
      expect((await service().ofRun("app", id, "cancel", { method: "POST" })).status).toBe(202);
    }
    const { text } = await answered;
    await reader.ended();
    await twice(async () => {
      const stream = await service().ofRun("app", reader.runId, "result");
      expect([stream.status, stream.text]).toEqual([499, reader.text]);
      const plain = await service().ofRun("app", held, "result");
      expect([plain.status, plain.text]).toEqual([499, text]);
    });
  });
});

describe("what is not kept", () => {
  test("is arguments and results of sync runs over 64 KiB", async () => {
    const value = "x".repeat(65_500);
    const fits = await call("echo", { value: value.slice(0, 65_400) });
    const both = await call("echo", { value: `${value}${value}` });
    const result = await call("echo", { value });
    await twice(async () => {
      for (const [answer, input, output] of [
        [fits, 200, 200],
        [both, 410, 410],
        [result, 200, 410],
      ] as const) {
        const id = idOf(answer);
        expect((await service().ofRun("app", id, "input")).status).toBe(input);
        const again = await service().ofRun("app", id, "result");
        expect([again.status, again.json.code]).toEqual([
          output,
          output === 410 ? "payload_not_kept" : undefined,
        ]);
        expect((await service().ofRun("app", id)).json.status).toBe("success");
      }
    });
  });

  for (const app of ["nothing", "async"]) {
    test(`is anything of a sync run where record_payloads is "${app === "nothing" ? "none" : app}"`, async () => {
      const answer = await call("echo", { value: 1 }, {}, app);
      const reader = openStream(service(), app, { upto: 3 }, { functionName: "count" });
      expect((await reader.ended()).data).toEqual(counted(3));
      await twice(async () => {
        for (const id of [idOf(answer), reader.runId]) {
          for (const action of ["input", "result"]) {
            const { status, json } = await service().ofRun(app, id, action);
            expect([action, status, json.code]).toEqual([action, 410, "payload_not_kept"]);
          }
          expect((await service().ofRun(app, id)).json).toMatchObject({ status: "success", result: null });
        }
      });
    });
  }
});
