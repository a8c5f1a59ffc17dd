import { randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { mkdir, readFile, readdir, rm, truncate, writeFile } from "node:fs/promises";
import { request } from "node:http";
import path from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os

def run(name):
    with open(os.path.join(os.environ["PERSISTENT_STORAGE"], name)) as file:
        return file.read()
`;

const service = sharedService({ reader: { main: MAIN } });
let site: ManagementSite;
let folder: string;
beforeAll(async () => {
  site = await ManagementSite.open(service());
  folder = path.join(service().settings.dataDir, "storage", site.projectId);
});

type Begun = { readonly upload_id: string; readonly parts: { part_number: number; url: string }[] };

async function begin(file_path: string, part_count: number): Promise<Begun> {
  return (await site.call("beginUpload", {}, { body: { file_path, part_count, region: "us-east-1" } })).json;
}

async function put(url: string, body: string | Buffer<ArrayBuffer>): Promise<Response> {
  return await fetch(url, { method: "PUT", body });
}

async function urlOf(file_path: string): Promise<string> {
  return (await site.call("offerFile", { file_path })).json.url;
}

verifies(
  ["volumes.upload", "volumes.ls"],
  "a file goes up in parts without a token, in any order and again, and the project's apps see it",
  async () => {
    const { upload_id, parts } = await begin("models/new/a b.txt", 3);
    expect(parts.map(({ part_number }) => part_number)).toEqual([1, 2, 3]);
    const etags = new Map<number, string | null>();
    for (const { part_number, url } of [...parts.toReversed(), ...parts]) {
      const answer = await put(url, `part ${part_number};`);
      expect([answer.status, answer.headers.get("etag")]).toEqual([
        200,
        expect.stringMatching(/^"[0-9a-f]+"$/),
      ]);
      if (etags.has(part_number)) expect(answer.headers.get("etag")).toBe(etags.get(part_number));
      etags.set(part_number, answer.headers.get("etag"));
      await answer.text();
    }
    expect((await site.call("listFiles", { dir: "models" })).json).toEqual([]);
    const tags = [...etags].map(([part_number, etag]) => ({ part_number, etag }));
    const body = { upload_id, file_path: "models/new/a b.txt", parts: tags, region: "us-east-1" };
    const completed = await site.call("completeUpload", {}, { body });
    expect(completed.json).toEqual({ file_path: "models/new/a b.txt", size_bytes: 21 });
    expect((await site.call("listFiles", { dir: "/" })).json).toMatchObject([
      { name: "models", is_folder: true },
    ]);
    for (const dir of ["models/new", "/models/new/", "./models//new"]) {
      const [entry] = (await site.call("listFiles", { dir }, { as: "deploy" })).json;
      expect(entry).toMatchObject({ name: "a b.txt", is_folder: false, size_bytes: 21 });
      const { mtime } = statSync(path.join(folder, "models/new/a b.txt"));
      expect(entry.last_modified).toBe(mtime.toISOString());
    }
    const { json } = await site.test.call("reader", { name: "models/new/a b.txt" });
    expect(json.result).toBe("part 1;part 2;part 3;");
  },
);

verifies(
  "volumes.download",
  "a file comes down without a token, whole or in ranges, by GET and HEAD",
  async () => {
    const bytes = randomBytes(3_000_000);
    await mkdir(path.join(folder, "big"), { recursive: true });
    await writeFile(path.join(folder, "big", "ü 'x'.bin"), bytes);
    const url = await urlOf("big/ü 'x'.bin");
    const whole = await fetch(url);
    expect(whole.status).toBe(200);
    expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).toBe(true);
    expect(whole.headers.get("content-type")).toBe("application/octet-stream");
    expect(whole.headers.get("content-disposition")).toBe(
      "attachment; filename*=UTF-8''%C3%BC%20%27x%27.bin",
    );
    expect(whole.headers.get("x-content-type-options")).toBe("nosniff");
    const head = await fetch(url, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length")]).toEqual([200, "3000000"]);
    expect(head.headers.get("accept-ranges")).toBe("bytes");
    const etag = head.headers.get("etag") ?? "";
    for (const [range, first, last] of [
      ["bytes=0-0", 0, 0],
      ["bytes=1000-1999999", 1000, 1_999_999],
      ["bytes=2999990-", 2_999_990, 2_999_999],
      ["bytes=-10", 2_999_990, 2_999_999],
    ] as const) {
      const part = await fetch(url, { headers: { range, "if-range": etag } });
      expect([part.status, part.headers.get("content-range")]).toEqual([
        206,
        `bytes ${first}-${last}/3000000`,
      ]);
      expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(first, last + 1))).toBe(true);
    }
    const changed = await fetch(url, { headers: { range: "bytes=0-0", "if-range": '"other"' } });
    expect([changed.status, (await changed.arrayBuffer()).byteLength]).toEqual([200, 3_000_000]);
    const behind = await fetch(url, { headers: { range: "bytes=3000000-" } });
    expect([behind.status, behind.headers.get("content-range")]).toEqual([416, "bytes */3000000"]);
    await behind.text();
  },
);

test("a link that is forged or of another kind opens nothing", async () => {
  await writeFile(path.join(folder, "file"), "x");
  const url = new URL(await urlOf("file"));
  const [{ url: partUrl } = { url: "" }] = (await begin("new", 1)).parts;
  const grant = url.searchParams.get("grant") ?? "";
  for (const forged of [`${grant}x`, grant.slice(1), new URL(partUrl).searchParams.get("grant") ?? "", "x"]) {
    url.searchParams.set("grant", forged);
    const answer = await fetch(url);
    expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining("invalid")]);
  }
  const other = new URL(partUrl);
  other.searchParams.set("grant", grant);
  expect((await put(other.href, "x")).status).toBe(404);
  expect((await put(partUrl.replace("/parts/1", "/parts/2"), "x")).status).toBe(404);
  expect((await put(partUrl.replace("/parts/1", "/parts/0"), "x")).status).toBe(400);
  await rm(path.join(folder, "file"));
  expect((await site.ask("GET", "volumes/default/download?file_path=file")).status).toBe(404);
});

test("a path that leads upwards, is no path or not there is a clear 4xx", async () => {
  const odd = ["../x", "a/../../x", "/..", "a\0b", "x".repeat(300), "a/".repeat(3000)];
  for (const file_path of odd) {
    const query = new URLSearchParams({ file_path });
    const answers = [
      await site.ask("GET", `volumes/default/download?${String(query)}`),
      await site.ask("DELETE", `volumes/default/rm?${String(query)}`),
      await site.ask("GET", `volumes/default/ls?${String(new URLSearchParams({ dir: file_path }))}`),
      await site.ask("POST", "volumes/default/cp/initialize", { body: { file_path, part_count: 1 } }),
    ];
    expect([file_path, answers.map(({ status }) => status)]).toEqual([file_path, [400, 400, 400, 400]]);
  }
  for (const file_path of ["", "/", ".", "folder/"]) {
    const body = { file_path, part_count: 1 };
    expect((await site.ask("POST", "volumes/default/cp/initialize", { body })).status).toBe(400);
  }
  for (const file_path of ["none", "none/"]) {
    const query = new URLSearchParams({ file_path });
    expect((await site.ask("DELETE", `volumes/default/rm?${String(query)}`)).status).toBe(404);
  }
  expect((await site.call("listFiles", { dir: "none/at/all" })).json).toEqual([]);
  expect((await site.ask("DELETE", "volumes/default/rm?file_path=/")).status).toBe(400);
});

test("a part far larger than a body may be streams to the disk", async () => {
  const bytes = randomBytes(12_000_000);
  const { upload_id, parts } = await begin("large.bin", 1);
  const answer = await put(parts[0]?.url ?? "", bytes);
  expect(answer.status).toBe(200);
  const tags = [{ part_number: 1, etag: answer.headers.get("etag") }];
  await answer.text();
  await site.call("completeUpload", {}, { body: { upload_id, file_path: "large.bin", parts: tags } });
  expect((await readFile(path.join(folder, "large.bin"))).equals(bytes)).toBe(true);
});

test("a sender who goes leaves no half of a part", async () => {
  const { parts } = await begin("broken.bin", 1);
  const uploads = path.join(folder, "..", ".staging", "uploads");
  const before = await readdir(uploads);
  const sending = request(parts[0]?.url ?? "", { method: "PUT", headers: { "content-length": "1000000" } });
  sending.on("error", () => {});
  sending.write("half");
  const files = (): string[] => before.flatMap((id) => readdirSync(path.join(uploads, id)));
  await until("its beginning has arrived", () => files().some((name) => name.startsWith("1.")));
  sending.destroy();
  await until("nothing is left of it", () => !files().some((name) => name.startsWith("1.")));
});

test("a file that is cut while it is read ends the connection, not the answer", async () => {
  const file = path.join(folder, "shrinking.bin");
  await writeFile(file, Buffer.alloc(64_000_000));
  const url = await urlOf("shrinking.bin");
  const answer = await fetch(url);
  const reader = answer.body?.getReader();
  await reader?.read();
  await truncate(file, 1000);
  await expect(
    (async () => {
      while (!(await reader?.read())?.done);
    })(),
  ).rejects.toThrow("terminated");
});
