import { expect, test } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { MAIN, ONE, cancel, ended, ledger, look, submit } from "./site.ts";

const STREAMS = `${MAIN}
def breaks():
    yield "a\\nb"
    yield {"c": 1}
    raise KeyError("late")

def early():
    raise KeyError("early")
    yield 1

def large(to):
    for n in range(to):
        yield "x" * 1000
    note("whole")
`;
const STREAM_TYPE = "text/event-stream; charset=utf-8";

const service = sharedService(
  {
    app: { main: STREAMS, toml: ONE },
    small: { main: STREAMS, toml: `${ONE}[limits]\nmax_transcript = 200000\n` },
  },
  WITHOUT_WALLS,
);

verifies(
  "stream.async-body",
  "the stored body of a generator is the whole SSE text, to the byte",
  async () => {
    const sync = await service().call("app", { to: 500 }, { functionName: "count" });
    const id = await submit(service(), "app", { to: 500 }, { functionName: "count" });
    expect(await ended(service(), "app", id)).toMatchObject({
      status: "success",
      statusCode: 200,
      async: true,
    });
    const result = await look(service(), "app", id, "/result");
    expect([result.status, result.headers.get("content-type")]).toEqual([200, STREAM_TYPE]);
    expect(result.text).toBe(sync.text);
    expect(result.text).toMatch(/^data: 0\n\ndata: 1\n\n.*data: 499\n\n$/s);
  },
);

test("a generator that fails on the way is failure 500, its body what a caller would have read", async () => {
  const id = await submit(service(), "app", {}, { functionName: "breaks" });
  expect(await ended(service(), "app", id)).toMatchObject({
    status: "failure",
    statusCode: 500,
    attempt: 1,
    error: { code: "app_error", message: "KeyError: 'late'" },
  });
  const { status, text } = await look(service(), "app", id, "/result");
  const start = 'data: a\ndata: b\n\ndata: {"c":1}\n\nevent: error\ndata: ';
  expect([status, text.slice(0, start.length)]).toEqual([500, start]);
  expect(JSON.parse(text.slice(start.length))).toMatchObject({ code: "app_error", request_id: id });
});

test("a generator that fails before its first chunk has an ordinary answer", async () => {
  const id = await submit(service(), "app", {}, { functionName: "early" });
  expect(await ended(service(), "app", id)).toMatchObject({ status: "failure", statusCode: 500 });
  const result = await look(service(), "app", id, "/result");
  expect([result.status, result.headers.get("content-type")]).toEqual([500, "application/json"]);
});

verifies(
  "stream.max-transcript",
  "past max_transcript the run fails and its generator is closed",
  async () => {
    const fits = await submit(service(), "small", { to: 150 }, { functionName: "large" });
    expect(await ended(service(), "small", fits)).toMatchObject({ status: "success" });
    expect((await look(service(), "small", fits, "/result")).text).toHaveLength(150 * 1008);
    const id = await submit(service(), "small", { to: 1_000_000 }, { functionName: "large" });
    expect(await ended(service(), "small", id)).toMatchObject({
      status: "failure",
      statusCode: 500,
      attempt: 1,
      error: { code: "result_too_large", message: expect.stringContaining("max_transcript") },
    });
    expect(ledger(service(), "small")).toEqual(["whole"]);
  },
);

test("a generator in the background is cancelled as one somebody reads", async () => {
  const id = await submit(service(), "app", {}, { functionName: "tick" });
  await until("its code runs", () => ledger(service(), "app").includes("ticking"));
  expect((await cancel(service(), "app", id)).status).toBe(202);
  expect(await ended(service(), "app", id)).toMatchObject({ status: "cancelled", statusCode: null });
  await until("it is closed", () => ledger(service(), "app").includes("closed"));
});
