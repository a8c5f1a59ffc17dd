import { packEnded } from "../../src/store/runs/ended-runs.ts";
import { asOwner } from "./as-owner.ts";
import { OWNER } from "./dashboard-site.ts";
import { DeployClient } from "./deploy-client.ts";
import { letGo } from "./run-apps.ts";
import { idAt, sampleEnd, sampleRun } from "./sample-run.ts";
import { until } from "./until.ts";
import type { TestApp, TestService } from "./service.ts";
import { MODES, WebhookTarget } from "./webhook-target.ts";
import { zipOf } from "./zip.ts";

const SUMMARIZE = `
import sys
from typing import Literal

def run(text: str, max_words: int = 60, style: Literal["plain", "bullets"] = "plain", tags: list[str] = []):
    print(f"summarizing {len(text)} characters in {style} style")
    print("the cache is cold", file=sys.stderr)
    return {"summary": text[:max_words], "words": len(text.split()), "style": style, "tags": tags}

def chat(prompt: str, temperature: float = 0.7):
    for word in f"You asked: {prompt}. Here is what I know about it.".split():
        yield word + " "

def fail(reason: str = "the model has no weights"):
    raise ValueError(reason)
`;
const SLOW = `
import os
import time

def run(gate):
    print("waiting at", gate)
    opened = os.path.join(os.environ["PERSISTENT_STORAGE"], os.environ["APP_NAME"] + "." + gate)
    while not os.path.exists(opened):
        time.sleep(0.01)
    return gate
`;

/** The apps of a dashboard that has something to show. */
export const SHOWN_APPS: Record<string, TestApp> = {
  summarize: { main: SUMMARIZE },
  "slow-batches": { main: SLOW, toml: "[scaling]\nmax_replicas = 1\n" },
};
export const SHOWN_FLAGS = { webhookAllow: "127.0.0.0/8" };

/** What `furnish` made, by what it shows. */
export type Furnished = {
  /** Has nothing in it. */
  readonly emptyProject: string;
  /** Of an invitation that nobody has used. */
  readonly inviteUrl: string;
  readonly builds: { readonly good: string; readonly bad: string };
  readonly runs: Readonly<
    Record<"success" | "stream" | "failure" | "cancelled" | "running" | "queued", string>
  >;
  readonly deliveries: Readonly<Record<"delivered" | "pending" | "failed", string>>;
  /** Lets what is still running end. */
  release(): void;
};

/** Fills a service of `SHOWN_APPS` whose owner there is with a little of everything. */
export async function furnish(test: TestService): Promise<Furnished> {
  const { owner, baseUrl, store } = test.service;
  const place = { baseUrl, projectId: owner.projectId, token: owner.token };
  await history(test);
  const call = async (app: string, functionName: string, body: object, suffix = ""): Promise<string> =>
    (await test.call(app, body, { functionName, suffix })).headers.get("x-request-id") ?? "";
  const held = async (gate: string): Promise<string> =>
    await call("slow-batches", "run", { gate }, "?async=true");

  const running = await held("first");
  const queued = await held("second");
  const cancelled = await held("third");
  await test.ofRun("slow-batches", cancelled, "cancel", { method: "POST" });
  const target = await WebhookTarget.open((response, { path }) => {
    (path === "/ok" ? MODES.ok : path === "/gone" ? MODES[410] : MODES[500])(response);
  });
  const forwarded = async (to: string): Promise<string> =>
    await call(
      "summarize",
      "run",
      { text: "Once upon a time" },
      `?async=true&webhookEndpoint=${target.url}${to}`,
    );
  const deliveries = {
    delivered: await forwarded("/ok"),
    pending: await forwarded("/broken"),
    failed: await forwarded("/gone"),
  };
  const success = await call("summarize", "run", { text: "The mill stands by the river.", style: "bullets" });
  const stream = await call("summarize", "chat", { prompt: "mills" });
  const failure = await call("summarize", "fail", {});

  const client = new DeployClient(place, "summarize");
  const good = (await client.deploy(await zipOf({ "main.py": SUMMARIZE }))).buildId;
  const bad = (await client.deploy(await zipOf({ "main.py": "import no_such_module\n" }))).buildId;

  const ask = asOwner(test);
  const { accessToken } = await ask<{ accessToken: string }>("POST", "/v2/session", OWNER);
  const empty = await ask<{ id: string }>("POST", "/v2/projects", { name: "an empty one" }, accessToken);
  const project = `/v2/projects/${owner.projectId}`;
  for (const [name, days, role] of [
    ["checkout-production", 300, "run"],
    ["nightly-report", 6, "deploy"],
  ] as const) {
    const expiresAt = new Date(Date.now() + days * 86_400_000).toISOString();
    await ask("POST", `${project}/service-accounts`, { name, role, expiresAt });
  }
  const app = `${project}/apps/${owner.projectId}-summarize`;
  await ask("PATCH", `${project}/secrets`, { HF_TOKEN: "hf_project", REGION: "eu" });
  await ask("PATCH", `${app}/secrets`, { HF_TOKEN: "hf_app", OPENAI_API_KEY: "sk-abcdef" });
  await ask("PATCH", app, { minReplicaCount: 1, cooldownPeriodSeconds: 120 });
  await ask("POST", `${project}/webhook-secrets`);
  const email = "colleague@example.test";
  const open = await ask<{ inviteUrl: string }>("POST", `${project}/invitations`, { email, role: "owner" });
  const used = await ask<{ inviteUrl: string }>("POST", `${project}/invitations`, { email });
  const signUp = { link: used.inviteUrl.split("#")[1], email, password: "a colleagues words" };
  await ask("POST", "/v2/invitation/sign-up", signUp);
  await upload(test, "models/tiny.bin", Buffer.alloc(2_500_000));
  await upload(test, "readme.txt", Buffer.from("Files of the project\n"));
  await until("the deliveries are tried", async () => {
    const tried = await Promise.all(Object.values(deliveries).map((id) => store.deliveries.attempts(id)));
    return tried.every((attempts) => attempts.length > 0);
  });
  await test.service.settle();
  return {
    emptyProject: empty.id,
    inviteUrl: open.inviteUrl,
    builds: { good, bad },
    runs: { success, stream, failure, cancelled, running, queued },
    deliveries,
    release: () => {
      for (const gate of ["first", "second"]) letGo(test, "slow-batches", gate);
    },
  };
}

/** Puts a file into the project's storage. */
export async function upload(test: TestService, file: string, bytes: Buffer): Promise<void> {
  const { owner } = test.service;
  const volume = `/v2/projects/${owner.projectId}/volumes/default/cp`;
  const ask = asOwner(test);
  type Begun = { upload_id: string; parts: { part_number: number; url: string }[] };
  const { upload_id, parts } = await ask<Begun>("POST", `${volume}/initialize`, {
    file_path: file,
    part_count: 1,
  });
  const put = await fetch(parts[0]!.url, { method: "PUT", body: new Uint8Array(bytes) });
  const sent = [{ part_number: 1, etag: put.headers.get("etag") ?? "" }];
  await ask("POST", `${volume}/complete`, { upload_id, file_path: file, parts: sent });
}

/** Runs of the last hours, more and fewer of them, some slow and a few failed. */
async function history({ service: { store, owner } }: TestService): Promise<void> {
  const apps = await store.apps.list(owner.projectId);
  const now = Date.now();
  const ends = [];
  for (let i = 0; i < 2_000; i++) {
    const createdAt = now - 60_000 - Math.floor((i / 2_000) ** 2 * 5 * 3_600_000);
    const wave = Math.sin(createdAt / 600_000);
    if (i % 7 > 4 + 2 * wave) continue;
    const state = i % 31 === 5 ? "failure" : i % 67 === 3 ? "cancelled" : "success";
    const responseMs = 18 * Math.exp(wave / 2 + ((i * 7919) % 100) / 40);
    const failed = { statusCode: 500, errorCode: "app_error", errorMessage: "KeyError: 'prompt'" } as const;
    const run = sampleRun({
      id: idAt(createdAt),
      createdAt,
      startedAt: createdAt + 2,
      completedAt: createdAt + Math.round(responseMs),
      appNumber: apps[i % 3 === 0 ? 1 : 0]!.number,
      isAsync: i % 5 === 0,
      state,
      responseMs,
      runMs: responseMs - 2,
      replicaStartedAt: createdAt - 100_000,
      ...(state === "failure" && failed),
      ...(state === "cancelled" && { statusCode: null }),
    });
    ends.push(sampleEnd(run));
  }
  await store.runs.insertFinished([packEnded(ends)]);
}
