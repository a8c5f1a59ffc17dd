import { existsSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { expect, test } from "vitest";
import type { TestService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { OnceClient, formOf, tarOf } from "./site.ts";

const HELLO = { "main.py": "print('hello')" };

const shared = sharedService();

function foldersOf({ settings }: TestService): string[] {
  const dir = path.join(settings.dataDir, "once");
  return existsSync(dir) ? readdirSync(dir) : [];
}

test("only who may deploy runs files, and only in an app that is there", async () => {
  const service = shared();
  const { tokens, owner } = service.service;
  const { projectId } = owner;
  const client = new OnceClient(service, "guarded");
  const form = () => formOf(tarOf(HELLO));
  expect((await client.post("run?filename=main.py", form())).json.code).toBe("app_not_found");
  expect((await client.post("base-image", {})).json.code).toBe("app_not_found");
  const expiresAt = Date.now() + 60_000;
  const [reader, deployer] = await Promise.all(
    (["run", "deploy"] as const).map(async (role) => {
      return (await tokens.issue({ projectId, name: role, role, expiresAt })).token;
    }),
  );
  for (const action of ["create-run-app", "run?filename=main.py", "base-image"]) {
    expect((await client.post(action, undefined, null)).status).toBe(401);
    expect((await client.post(action, undefined, reader)).status).toBe(403);
  }
  expect((await client.post("create-run-app", undefined, deployer)).status).toBe(200);
  const begun = await client.post("run?filename=main.py", form(), deployer);
  expect(begun.status).toBe(200);
  await client.ended(begun.json.runId);
  expect((await new OnceClient(service, "Not_a_name").post("create-run-app")).json.code).toBe("bad_request");
});

test("a form that cannot be used is refused with the reason, and leaves nothing", async () => {
  const service = shared();
  const client = new OnceClient(service, "strict");
  await client.post("create-run-app");
  const link = tarOf({ "main.py": "" });
  link.set(Buffer.from("2"), 156);
  const cases: [query: string, form: FormData | object, code: string, message: string][] = [
    ["filename=other.py", formOf(tarOf(HELLO)), "upload_invalid", "The archive does not contain other.py."],
    ["filename=../main.py", formOf(tarOf(HELLO)), "bad_request", "filename"],
    ["filename=main.txt", formOf(tarOf(HELLO)), "bad_request", "filename"],
    ["functionName=run", formOf(tarOf(HELLO)), "bad_request", "filename"],
    ["filename=main.py&functionName=--x", formOf(tarOf(HELLO)), "bad_request", "functionName"],
    ["filename=main.py", formOf(tarOf(HELLO), "{"), "invalid_json", "data"],
    ["filename=main.py", formOf(tarOf(HELLO), `"${"x".repeat(128_000)}"`), "body_too_large", "128000"],
    ["filename=main.py", formOf(tarOf(HELLO), "{}", "p-other"), "bad_request", "projectId"],
    ["filename=main.py", formOf(link), "upload_invalid", "not a readable archive"],
    ["filename=main.py", formOf(tarOf({ "../main.py": "" })), "upload_invalid", "lead out"],
    ["filename=main.py", new FormData(), "bad_request", 'no part "file"'],
    ["filename=main.py", {}, "unsupported_media_type", "multipart/form-data"],
    ["filename=main.py&imageDigest=0123456789abcdef", formOf(tarOf(HELLO)), "bad_request", "imageDigest"],
    ["filename=main.py&imageDigest=../../etc", formOf(tarOf(HELLO)), "bad_request", "imageDigest"],
  ];
  for (const [query, form, code, message] of cases) {
    const { json } = await client.post(`run?${query}`, form);
    expect({ query, code: json.code, message: json.message }).toEqual({
      query,
      code,
      message: expect.stringContaining(message),
    });
  }
  expect(foldersOf(service)).toEqual([]);
  const { status, json } = await client.post("run?filename=main.py", formOf(tarOf(HELLO)));
  expect(status).toBe(200);
  await client.ended(json.runId);
});

test("a sender who leaves amid the archive leaves nothing", async () => {
  const service = shared();
  const client = new OnceClient(service, "leaving");
  await client.post("create-run-app");
  const { baseUrl, owner } = service.service;
  const url = new URL(`${baseUrl}/v3/projects/${owner.projectId}/apps/${client.appId}/run?filename=main.py`);
  const socket = connect(Number(url.port), url.hostname);
  const part = Buffer.from(
    '--xx\r\ncontent-disposition: form-data; name="file"; filename="a.tar"\r\ncontent-type: application/x-tar\r\n\r\n',
  );
  const head = [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `host: ${url.host}`,
    `authorization: Bearer ${owner.token}`,
    "content-type: multipart/form-data; boundary=xx",
    "content-length: 100000",
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  socket.write(Buffer.concat([part, tarOf(HELLO).subarray(0, 700)]));
  await until("it arrives", () => foldersOf(service).length === 1);
  socket.destroy();
  await until("nothing is left of it", () => foldersOf(service).length === 0);
});
