import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const HOSTILE = readFileSync(path.join(import.meta.dirname, "../../support/servers/hostile.py"), "utf8");

const site = sharedService({
  bad: serverApp(
    {
      runtime: 'entrypoint = ["python", "main.py"]',
      toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4",
    },
    HOSTILE,
  ),
  hasty: serverApp(
    {
      runtime: 'entrypoint = ["python", "main.py"]',
      toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\nresponse_grace_period = 1",
    },
    HOSTILE,
  ),
});

/** What a path answers: status and text, or "cut". */
async function ask(
  name: string,
  app = "bad",
): Promise<{ status: number | "cut"; text: string; runId: string }> {
  const { service } = site();
  try {
    const response = await fetch(site().url(app, name), {
      headers: { authorization: `Bearer ${service.owner.token}` },
    });
    const runId = response.headers.get("x-request-id") ?? "";
    try {
      return { status: response.status, text: await response.text(), runId };
    } catch {
      return { status: "cut", text: "", runId };
    }
  } catch {
    return { status: "cut", text: "", runId: "" };
  }
}

async function isUnharmed(app = "bad"): Promise<void> {
  for (let i = 0; i < 4; i++) expect(await ask("ok", app)).toMatchObject({ status: 200, text: "ok" });
}

describe("answers that are wrong from their head on", () => {
  for (const name of [
    "nothing",
    "garbage",
    "switch",
    "two-lengths",
    "folded",
    "zero",
    "split",
    "endless-headers",
    "interim",
  ]) {
    verifies("servers.hostile", `${name}: 502, and the next call is unharmed`, async () => {
      const answer = await ask(name);
      expect(answer.status).toBe(502);
      expect(JSON.parse(answer.text)).toMatchObject({ code: "bad_app_response", request_id: answer.runId });
      await isUnharmed();
    });
  }
});

describe("answers that go wrong after their head", () => {
  for (const name of ["too-little", "cut-chunk", "bad-chunk"]) {
    verifies("servers.hostile", `${name}: the connection is cut, and the record says why`, async () => {
      const { status, runId } = await ask(name);
      // What goes wrong in the same packet as the head may still be told by a status.
      if (status === "cut") {
        const record = await site().ofRun("bad", runId);
        expect(record.json).toMatchObject({ status: "failure", statusCode: 502 });
        expect(record.json.error.code).toBe("bad_app_response");
      } else expect(status).toBe(502);
      await isUnharmed();
    });
  }
});

describe("answers that are odd, and whole", () => {
  test.each([
    ["too-much", "ok"],
    ["two-answers", "ok"],
    ["both", "ok"],
    ["until-close", "all of it"],
  ])("%s", async (name, text) => {
    expect(await ask(name)).toMatchObject({ status: 200, text });
    await isUnharmed();
  });
});

/** What a path answers, byte by byte. */
async function rawAnswer(name: string, version = "1.1"): Promise<string> {
  await using connection = await RawConnection.open(site().service.apiUrl);
  const { pathname } = new URL(site().url("bad", name));
  const headers = ["Host: x", `Authorization: Bearer ${site().service.owner.token}`, "Connection: close"];
  const pieces: Buffer[] = [];
  connection.socket.on("data", (data: Buffer) => void pieces.push(data));
  connection.send(rawRequest(`GET ${pathname} HTTP/${version}`, headers));
  await connection.closed();
  return Buffer.concat(pieces).toString("latin1");
}

describe("answers that would mislead their callers", () => {
  verifies("servers.hostile", "204 has no length, which some would wait for", async () => {
    const answer = await rawAnswer("no-content");
    expect(answer).toMatch(/^HTTP\/1\.1 204 /);
    expect(answer).not.toMatch(/content-length/i);
  });

  verifies("servers.headers", "trailers say nothing that the headers may not", async () => {
    const answer = await rawAnswer("trailers");
    expect(answer.slice(answer.indexOf("\r\n\r\n"))).toBe("\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n");
  });

  verifies("servers.http", "a caller who does not wait for 100 Continue does not get it", async () => {
    for (const version of ["1.0", "1.1"])
      expect(await rawAnswer("go-on", version)).toMatch(/^HTTP\/1\.1 200 /);
  });
});

verifies("servers.last-words", "an answer is whole though its server ended with it", async () => {
  for (let round = 0; round < 3; round++) {
    // Its replica has been idle before.
    await isUnharmed();
    const [replica] = site().apps.get("bad")?.pool.replicas ?? [];
    const { status, text } = await ask("last");
    expect([status, text.length]).toEqual([200, 2_000_000]);
    await until("its replica is gone", () => replica?.state === "gone");
  }
});

verifies(
  "servers.hostile",
  "an answer before the body is read reaches its caller, whose body is let go",
  async () => {
    const { service } = site();
    const body = Buffer.alloc(8 * 1024 * 1024, "x");
    const response = await fetch(site().url("bad", "early"), {
      method: "POST",
      body,
      headers: { authorization: `Bearer ${service.owner.token}` },
    });
    expect(response.status).toBe(403);
    expect(await response.text()).toBe("no");
    await isUnharmed();
  },
);

verifies(
  ["servers.hostile", "servers.limits"],
  "a server that never answers, or never ends, runs out of time",
  async () => {
    expect(await ask("silent", "hasty")).toMatchObject({ status: 504 });
    const endless = await ask("endless-body", "hasty");
    expect(endless.status).toBe("cut");
    const record = await site().ofRun("hasty", endless.runId);
    expect(record.json).toMatchObject({ status: "failure", statusCode: 504, error: { code: "timed_out" } });
    await isUnharmed("hasty");
  },
);

verifies("servers.hostile", "what a caller does not read is not taken from the server", async () => {
  const { service } = site();
  const before = process.memoryUsage();
  await using connection = await RawConnection.open(service.apiUrl);
  connection.socket.pause();
  const { pathname } = new URL(site().url("bad", "endless-body"));
  connection.send(
    rawRequest(`GET ${pathname} HTTP/1.1`, ["Host: x", `Authorization: Bearer ${service.owner.token}`]),
  );
  // As many calls as it takes for an endless answer to fill whatever would hold it.
  for (let i = 0; i < 200; i++) await ask("ok");
  const { arrayBuffers, heapUsed } = process.memoryUsage();
  const more = arrayBuffers + heapUsed - before.arrayBuffers - before.heapUsed;
  expect(more).toBeLessThan(64 * 1024 * 1024);
});
