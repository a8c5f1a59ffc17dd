import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { run, scratchDirectory } from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

type Advisory = { readonly id: number; readonly severity: string };

/** A registry that lists these advisories for the package ws, or has no list at all. */
async function registry(advisories: readonly Advisory[] | null): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      if (request.method === "POST" && advisories === null) {
        response.writeHead(405).end();
        return;
      }
      const listed = advisories?.map((advisory) => ({
        ...advisory,
        title: "It lets everybody in",
        url: "https://advisories.example/1",
        vulnerable_versions: ">=1.0.0",
      }));
      const body =
        request.method === "POST" ? (listed?.length ? { ws: listed } : {}) : packument(request.url ?? "");
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function packument(url: string): object {
  const name = decodeURIComponent(url.slice(1));
  return { name, "dist-tags": { latest: "8.0.0" }, versions: { "8.0.0": { name, version: "8.0.0" } } };
}

async function review(
  advisories: readonly Advisory[] | null,
): Promise<{ code: number | string; said: string }> {
  const env = { npm_config_registry: await registry(advisories), npm_config_cache: scratchDirectory() };
  const node = path.join(REPOSITORY, "node_modules", ".bin", "node");
  const { code, stdout, stderr } = await run(node, ["scripts/audit-deps.ts"], { env });
  return { code, said: stdout + stderr };
}

verifies("hardening.audit", "a serious advisory fails the review, a lesser one is told", async () => {
  const serious = await review([{ id: 1, severity: "high" }]);
  expect(serious.said).toMatch(
    /^\d\d+ packages reviewed: 1 with a serious advisory, 0 with a lesser one\.$/m,
  );
  expect(serious.said).toMatch(
    /^high: ws .*\n {2}It lets everybody in \(https:\/\/advisories\.example\/1\)$/m,
  );
  expect(serious.code).toBe(1);
  const lesser = await review([{ id: 2, severity: "moderate" }]);
  expect([lesser.code, lesser.said]).toEqual([0, expect.stringContaining("moderate: ws")]);
  const none = await review([]);
  expect([none.code, none.said]).toEqual([
    0,
    expect.stringContaining("0 with a serious advisory, 0 with a lesser"),
  ]);
});

verifies("hardening.audit", "a registry without a list is said aloud, and is no clean review", async () => {
  const { code, said } = await review(null);
  expect([code, said]).toEqual([2, expect.stringMatching(/^NOT REVIEWED: .*\n.*405/)]);
});
