import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService(
  { app: { main: "def run():\n    return 1\n" } },
  { webhookAllow: "127.0.0.0/8" },
);

/** Ways to end a line, and begin a header or an answer, in a text that is given back in a header. */
const BREAKS = [
  "\r\nX-Injected: 1",
  "\nX-Injected: 1",
  "\rX-Injected: 1",
  "\r\n X-Injected: 1",
  "\r\n\r\nHTTP/1.1 200 OK\r\nX-Injected: 1\r\n\r\n",
  "\u0000X-Injected: 1",
  "\u000bX-Injected: 1",
  "\u0085X-Injected: 1",
  "\u010d\u010aX-Injected: 1",
  "\u2028X-Injected: 1",
  "%0d%0aX-Injected: 1",
  "%250d%250aX-Injected: 1",
  "%E5%98%8D%E5%98%8AX-Injected: 1",
  "\\r\\nX-Injected: 1",
  '"; filename="evil.html',
];

const HEADERS = [
  "Origin",
  "Access-Control-Request-Headers",
  "Access-Control-Request-Method",
  "Prefer",
  "Idempotency-Key",
  "Last-Event-ID",
  "X-Request-Id",
  "X-Webhook-Secret",
  "Accept-Encoding",
  "Accept",
];

/** All that comes on one connection, read to its end. */
async function ask(url: string, lines: string): Promise<readonly RawAnswer[]> {
  await using connection = await RawConnection.open(url);
  connection.send(Buffer.from(lines));
  await connection.answer();
  await connection.closed();
  expect(connection.rest).toBe("");
  return connection.answers;
}

function expectClean(answers: readonly RawAnswer[], where: string): void {
  // A break that is one for the parser too ends the request, and is the caller's own affair.
  for (const { status, headers } of answers) {
    expect([where, Object.keys(headers).filter((name) => name.includes("injected"))]).toEqual([where, []]);
    expect([where, status]).not.toEqual([where, 500]);
    expect(Object.values(headers).join("\n")).not.toMatch(/^X-Injected/im);
  }
}

describe("a text that is given back brings no header of its own", () => {
  for (const name of HEADERS) {
    verifies("hardening.headers", `in ${name}`, async () => {
      const { apiUrl, owner } = service().service;
      const host = `Host: ${new URL(apiUrl).host}`;
      for (const end of BREAKS) {
        for (const method of ["POST", "OPTIONS"]) {
          const lines = rawRequest(`${method} /v4/${owner.projectId}/app/run HTTP/1.1`, [
            host,
            `Authorization: Bearer ${owner.token}`,
            ...(method === "OPTIONS" && name !== "Origin" ? ["Origin: https://page.example"] : []),
            `${name}: wait=1${end}`,
            "Connection: close",
          ]);
          expectClean(await ask(apiUrl, lines), JSON.stringify([name, end, method]));
        }
      }
    });
  }

  verifies("hardening.headers", "in the path and the query of a call", async () => {
    const { apiUrl, owner } = service().service;
    for (const end of BREAKS) {
      const text = encodeURIComponent(`http://127.0.0.1:9/x${end}`);
      for (const target of [
        `/v4/${owner.projectId}/app/run?async=true&webhookEndpoint=${text}`,
        `/v4/${owner.projectId}/app/run/${encodeURIComponent(`x${end}`)}?async=true`,
        `/v4/${owner.projectId}/${encodeURIComponent(`app${end}`)}/run`,
      ]) {
        const lines = rawRequest(`POST ${target} HTTP/1.1`, [
          `Host: ${new URL(apiUrl).host}`,
          `Authorization: Bearer ${owner.token}`,
          "Connection: close",
        ]);
        expectClean(await ask(apiUrl, lines), target);
      }
    }
  });

  verifies("hardening.headers", "in the name of a file that is downloaded", async () => {
    const { baseUrl, owner } = service().service;
    const folder = path.join(service().settings.dataDir, "storage", owner.projectId);
    mkdirSync(folder, { recursive: true });
    for (const end of BREAKS.filter((one) => !/[\0/]/.test(one))) {
      const name = `file${end}`;
      writeFileSync(path.join(folder, name), "x");
      const offered = await fetch(
        `${baseUrl}/v2/projects/${owner.projectId}/volumes/default/download?file_path=${encodeURIComponent(name)}`,
        { headers: { authorization: `Bearer ${owner.token}` } },
      );
      expect([name, offered.status]).toEqual([name, 200]);
      const { url } = (await offered.json()) as { url: string };
      const { pathname, search } = new URL(url);
      const lines = rawRequest(`GET ${pathname}${search} HTTP/1.1`, [
        `Host: ${new URL(baseUrl).host}`,
        "Connection: close",
      ]);
      const answers = await ask(baseUrl, lines);
      expectClean(answers, name);
      expect(answers[0]?.headers["content-disposition"]).toMatch(/^attachment; filename\*=UTF-8''[\w.%-]+$/);
    }
  });
});
