import { describe, expect } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { WAIT_FOR, letGo, runningId } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${WAIT_FOR}
def run(name="x"):
    return {"m": name, "n": [1, 2.5, None, True], "ü": "é"}

def held(gate):
    """Gives the milliseconds it took."""
    started = time.perf_counter()
    wait_for(gate)
    return (time.perf_counter() - started) * 1000

def status(code):
    return {"status_code": code, "more": 1}

def nested(code):
    return [{"status_code": code}]
`;

const service = sharedService({ hello: { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" } });

verifies(
  ["run.sync.body", "run.sync.content-type"],
  "a sync call answers run_id, result and run_time_ms, compact, and nothing else",
  async () => {
    const answer = await service().call("hello", { name: "Ada" });
    expect(answer.status).toBe(200);
    expect(answer.text).toMatch(
      /^\{"run_id":"[0-9a-f-]{36}","result":\{"m":"Ada","n":\[1,2\.5,null,true\],"ü":"é"\},"run_time_ms":[0-9.]+\}$/,
    );
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.headers.get("content-length")).toBe(String(Buffer.byteLength(answer.text)));
  },
);

verifies(
  "run.sync.waits",
  "the answer comes after the function has returned, and tells its time",
  async () => {
    let isAnswered = false;
    const call = service().call("hello", { gate: "gate" }, { functionName: "held" });
    void call.then(() => (isAnswered = true));
    await runningId(service(), "hello", "held");
    // Another call comes and goes meanwhile.
    await service().call("hello");
    expect(isAnswered).toBe(false);
    letGo(service(), "hello", "gate");
    const { json } = await call;
    // In hundredths.
    expect(json.run_time_ms).toBeGreaterThanOrEqual((json.result as number) - 0.01);
  },
);

describe("status_code in a returned dict", () => {
  const status = (code: unknown, functionName = "status") =>
    service().call("hello", { code }, { functionName });

  verifies(
    ["run.sync.status-code", "run.sync.status-code.stays"],
    "from 200 to 599 is the answer's status, and stays in the result",
    async () => {
      for (const code of [200, 201, 299, 302, 400, 404, 418, 499, 500, 599]) {
        const answer = await status(code);
        expect([answer.status, answer.json.result]).toEqual([code, { status_code: code, more: 1 }]);
        expect(Object.keys(answer.json as object)).toEqual(["run_id", "result", "run_time_ms"]);
      }
    },
  );

  verifies("run.sync.status-code", "of any other value, kind or place is plain data", async () => {
    for (const code of [0, 100, 101, 199, 600, -1, 1e9, "404", 404.5, true, null, [404]]) {
      const answer = await status(code);
      expect([answer.status, answer.json.result]).toEqual([200, { status_code: code, more: 1 }]);
    }
    expect((await status(404, "nested")).status).toBe(200);
  });

  verifies(
    "run.sync.status-code.bodyless",
    "204, 205 and 304 come without a body, and the connection goes on",
    async () => {
      const { apiUrl, owner } = service().service;
      await using connection = await RawConnection.open(apiUrl);
      for (const [place, code] of [204, 205, 304, 200].entries()) {
        const body = JSON.stringify({ code });
        const line = `POST /v4/${owner.projectId}/hello/status HTTP/1.1`;
        const type = "Content-Type: application/json";
        const length = `Content-Length: ${body.length}`;
        connection.send(
          rawRequest(line, ["Host: x", `Authorization: Bearer ${owner.token}`, type, length], body),
        );
        const answer = await connection.answer(place);
        expect(answer.status).toBe(code);
        expect(answer.headers["transfer-encoding"]).toBeUndefined();
        if (code === 200) continue;
        expect([answer.body, answer.headers["content-type"]]).toEqual(["", undefined]);
        expect(answer.headers["content-length"] ?? "0").toBe("0");
      }
      expect(connection.rest).toBe("");
    },
  );
});
