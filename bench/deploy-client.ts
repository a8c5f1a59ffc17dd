import { createWriteStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { writeZip } from "../src/apps/bundles/write-zip.ts";
import { makeScratchDir } from "./scratch.ts";
import type { MillraceRunning } from "./subjects/millrace.ts";
import { timedCall } from "./timed-call.ts";

/** A hello app as a zip; its answer tells it from every other. */
export type HelloZip = { readonly bytes: Buffer; readonly folder: string; readonly mark: string };

const POLL_MS = 10;
const LIMIT_MS = 60_000;
const FINAL = ["success", "build_failure", "init_failure", "init_timeout", "cancelled"];

/** Makes the zip of a hello app that answers with the mark. */
export async function makeHelloZip(mark: string): Promise<HelloZip> {
  const folder = makeScratchDir();
  const main = `MARK = ${JSON.stringify(mark)}\n\n\ndef run(name="x"):\n    return {"message": "hello " + name, "mark": MARK}\n`;
  await writeFile(join(folder, "main.py"), main);
  await writeFile(join(folder, "millrace.toml"), "[scaling]\ncooldown = 1\n");
  const zip = join(makeScratchDir(), "hello.zip");
  const files = ["main.py", "millrace.toml"].map((name) => ({ name, path: join(folder, name) }));
  await writeZip(files, createWriteStream(zip));
  return { bytes: await readFile(zip), folder, mark };
}

/** One way to deploy, from its first byte until the build has ended well. */
export type DeployWay = (service: MillraceRunning, app: string, zip: Buffer) => Promise<void>;

/** As existing clients do it: POST, PUT, then asking for the build's status every 10 ms. */
export const byProtocol: DeployWay = async ({ projectUrl, headers }, app, zip) => {
  const begun = (await ask(`${projectUrl}/apps`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ name: app }),
  })) as { buildId: string; uploadUrl: string };
  await ask(begun.uploadUrl, { method: "PUT", body: Uint8Array.from(zip) });
  const project = projectUrl.slice(projectUrl.lastIndexOf("/") + 1);
  const buildUrl = `${projectUrl}/apps/${project}-${app}/builds/${begun.buildId}`;
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    const { status } = (await ask(buildUrl, { headers })) as { status: string };
    if (status === "success") return;
    if (FINAL.includes(status) || performance.now() > deadline) throw new Error(`the build is ${status}`);
    await pause(POLL_MS);
  }
};

/** Our own way: one call that answers with the build's log and its end. */
export const byOneCall: DeployWay = async ({ projectUrl, headers }, app, zip) => {
  const response = await fetch(`${projectUrl}/deploys?name=${app}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/zip" },
    body: Uint8Array.from(zip),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`status ${response.status}: ${text.slice(0, 200)}`);
  const last = JSON.parse(text.trimEnd().split("\n").at(-1) ?? "") as { build?: { status: string } };
  if (last.build?.status !== "success") throw new Error(`the build is ${JSON.stringify(last)}`);
};

/** The time from the deploy's first byte to the first 200 of what was deployed. */
export async function timeDeploy(
  way: DeployWay,
  service: MillraceRunning,
  app: string,
  { bytes, mark }: HelloZip,
): Promise<number> {
  const startedAt = performance.now();
  await way(service, app, bytes);
  const { result } = await timedCall(service.callUrl(app), service.headers, "{}");
  const ms = performance.now() - startedAt;
  if (result["mark"] !== mark) throw new Error("the first answer after the deploy was not the new version's");
  return ms;
}

async function ask(url: string, init: RequestInit): Promise<unknown> {
  const response = await fetch(url, init);
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`status ${response.status} from ${url}: ${text.slice(0, 200)}`);
  return text === "" ? null : (JSON.parse(text) as unknown);
}
