import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { writeWheels } from "../../integration/builds/wheels.ts";
import { Client } from "../../integration/cli/client.ts";
import { DeploySite } from "../../integration/deploys/site.ts";
import { HOSTED_APPS, folderOf, officialDeploy } from "../../integration/hosted/official-client.ts";

/** What becomes of an app: it serves, with these lines in its build log; or it is refused with this message. */
type Fate = { readonly serves: readonly RegExp[]; readonly page?: string } | { readonly refused: RegExp };

/** What a server of its own answers at its root. */
const PAGE = { method: "GET", functionName: "" };

/** Of every app in the folder. */
const FATES: Readonly<Record<string, Fate>> = {
  plain: { serves: [/^warning: docker_base_image_url needs podman or docker on this host/m] },
  "string-entrypoint": { serves: [], page: "<p>hello</p>\n" },
  "empty-command": { serves: [] },
  "spaced-extras": { serves: [/^installing 1 package from \[dependencies\.pip\]/m] },
  "bare-python-version": { serves: [] },
  gpu: { serves: [] },
  "container-runtime": { serves: [/^warning: container_runtime is not used: the app runs as a process/m] },
  "compute-tier": { serves: [] },
  experimental: { serves: [/^warning: \[experimental\] is ignored: /m] },
  "log-switches": { serves: [] },
  deepgram: {
    refused: /^runtime = "deepgram" asks for a partner service .* remove it, and call the partner's/,
  },
  rime: { refused: /^runtime = "rime" asks for a partner service .* remove it, and call the partner's/ },
  "unknown-key": { serves: [/^warning: cerebrium\.deployment\.cuda_version is not a known key/m] },
  dockerfile: {
    refused: /^a Dockerfile needs podman or docker on this host: .*\. Install podman/,
  },
  "base-image": { serves: [/^warning: docker_base_image_url needs podman or docker/m] },
  apt: { serves: [/^warning: system packages are missing .*apt-get install no-such-system-package/m] },
  conda: { refused: /^Conda packages are not supported .* List what is on PyPI under \[dependencies\.pip\]/ },
  "first-failure": { refused: /^RuntimeError: no weights$/ },
};

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());
let wheels = "";

beforeAll(async () => {
  wheels = await mkdtemp(path.join(tmpdir(), "millrace-hosted-"));
  await writeWheels(wheels, [{ name: "greetings", version: "1.0", module: 'WORD = "hello"' }]);
  vi.stubEnv("PIP_NO_INDEX", "1");
  vi.stubEnv("PIP_FIND_LINKS", wheels);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await rm(wheels, { recursive: true, force: true });
});

/** Deploys as the official client does; gives the build's log, and the reason if it was refused. */
async function deploy(app: string): Promise<{ buildId: string | null; log: string; refusal: string | null }> {
  const site = here();
  const { route, payload, zip } = officialDeploy(app);
  const begun = await site.ask("POST", route, payload);
  if (begun.status !== 200) return { buildId: null, log: "", refusal: begun.json.message };
  const { buildId, uploadUrl } = begun.json;
  expect((await site.put(uploadUrl, zip)).status).toBe(200);
  const status = await site.ended(app, buildId);
  const log = await site.log(app, buildId);
  return { buildId, log, refusal: status === "success" ? null : await site.message(app, buildId) };
}

test("no app of the folder is left out", () => {
  expect(Object.keys(FATES).toSorted()).toEqual(HOSTED_APPS.toSorted());
});

for (const [app, fate] of Object.entries(FATES)) {
  verifies(
    ["hosted.all", "hosted.compute-tier", "hosted.dockerfile", "hosted.conda"],
    `the app ${app} ${"refused" in fate ? "is refused with what to do" : "serves"}`,
    async () => {
      const { log, refusal } = await deploy(app);
      if ("refused" in fate) {
        expect(refusal).toMatch(fate.refused);
        expect(refusal).not.toContain("main.py at its root");
      } else {
        expect({ refusal, log }).toEqual({ refusal: null, log });
        for (const line of fate.serves) expect(log).toMatch(line);
        if (fate.page === undefined) expect(await here().answer(app)).toEqual({ hello: "world" });
        else expect(await here().test.call(app, null, PAGE)).toMatchObject({ status: 200, text: fate.page });
      }
    },
  );
}

verifies("hosted.empty-command", "an empty command is not run, nor is the script made of it", async () => {
  const { log, refusal } = await deploy("empty-command");
  expect(refusal).toBeNull();
  expect(log).not.toMatch(/^\$ /m);
});

verifies("hosted.gpu-count", "an app that names a GPU asks for one of them", async () => {
  const site = here();
  await site.deploy("one-gpu", officialDeploy("gpu").zip, { cerebrium_toml: "" });
  expect((await site.ask("GET", `apps/${site.appId("one-gpu")}`)).json).toMatchObject({
    hardware: "AMPERE_A10",
    gpuCount: "1",
  });
});

verifies(
  ["hosted.unknown-once", "hosted.experimental"],
  "what is in the payload's text and in the zip is warned about once",
  async () => {
    for (const [app, text] of [
      ["unknown-key", "cuda_version is not a known key"],
      ["experimental", "[experimental] is ignored"],
    ] as const) {
      const { log } = await deploy(app);
      expect(log.split(text)).toHaveLength(2);
    }
  },
);

verifies("hosted.partners", "a partner's runtime is refused by name, whoever sends it", async () => {
  const site = here();
  for (const app of ["deepgram", "rime"]) {
    const { payload, zip } = officialDeploy(app);
    for (const route of ["apps", "partner-apps"]) {
      const { status, json } = await site.ask("POST", route, payload);
      expect([status, json.code, json.message]).toEqual([
        422,
        "deploy_invalid",
        expect.stringContaining(`runtime = "${app}" asks for a partner service of the hosted platform`),
      ]);
    }
    const { buildId, status } = await site.deploy(app, zip);
    expect(status).toBe("build_failure");
    expect(await site.message(app, buildId)).toContain(`[runtime.${app}] asks for a partner service`);
    const own = await new Client(service()).run("deploy", folderOf(app));
    expect([own.code, own.stderr]).toEqual([2, expect.stringContaining(`[runtime.${app}] asks for a`)]);
  }
  const unnamed = await site.ask("POST", "partner-apps", { name: "other" });
  expect(unnamed.json.message).toContain("partner-apps asks for a partner service");
});

verifies(
  ["hosted.absent", "hosted.first-failure"],
  "an app whose only build failed says so to callers, and to who deploys it",
  async () => {
    const site = here();
    await deploy("first-failure");
    for (const address of ["run", "openapi.json", "", ".well-known/path"]) {
      const { apiUrl, owner } = service().service;
      const answer = await fetch(`${apiUrl}/v4/${owner.projectId}/first-failure/${address}`, {
        method: address === "run" ? "POST" : "GET",
        headers: { authorization: `Bearer ${owner.token}` },
      });
      expect([answer.status, await answer.json()]).toEqual([
        503,
        expect.objectContaining({
          code: "app_not_ready",
          message:
            "The app has no version to serve: its last build ended as init_failure (RuntimeError: no weights). Deploy it again.",
        }),
      ]);
    }
    const client = new Client(service());
    const failed = await client.run("deploy", folderOf("first-failure"), "--name", "first-by-cli");
    expect(failed.stderr).toContain("nothing is serving yet.");
    expect(failed.stderr).not.toContain("keeps serving");
    expect((await site.test.call("never-deployed")).json.code).toBe("app_not_found");
    const { buildId } = await site.begin("under-way");
    const early = await site.test.call("under-way");
    expect([early.status, early.json.message]).toEqual([
      503,
      "The app's first build is not finished: it is pending.",
    ]);
    await site.cancel("under-way", buildId);
  },
);

verifies(
  "hosted.log-switches",
  "DISABLE_REQUEST_LOGS and DISABLE_RESPONSE_LOGS keep what calls say out of their records",
  async () => {
    const site = here();
    await deploy("log-switches");
    const { apiUrl, owner } = service().service;
    const kept = async (functionName = "run", suffix = ""): Promise<[string, string][]> => {
      const called = await site.test.call("log-switches", { name: "Ada" }, { functionName, suffix });
      const runId = called.headers.get("x-request-id");
      const base = `${apiUrl}/v4/${owner.projectId}/log-switches/runs/${runId}`;
      const headers = { authorization: `Bearer ${owner.token}`, prefer: "wait=60" };
      const parts: [string, string][] = [];
      for (const part of ["result", "input"]) {
        const answer = await fetch(`${base}/${part}`, { headers });
        const text = await answer.text();
        parts.push([
          part,
          answer.status === 200 ? (text.includes("Ada") ? "kept" : text) : String(answer.status),
        ]);
      }
      return parts;
    };
    const secrets = async (map: object): Promise<void> => {
      const path = `apps/${site.appId("log-switches")}/secrets`;
      expect((await site.ask("PATCH", path, map)).status).toBe(200);
    };
    const all = [
      ["result", "kept"],
      ["input", "kept"],
    ];
    expect(await kept()).toEqual(all);
    await secrets({ DISABLE_REQUEST_LOGS: "true" });
    expect(await kept()).toEqual([
      ["result", "kept"],
      ["input", "410"],
    ]);
    expect(await kept("stream")).toEqual([
      ["result", "kept"],
      ["input", "410"],
    ]);
    await secrets({ DISABLE_RESPONSE_LOGS: "true" });
    expect(await kept()).toEqual([
      ["result", "410"],
      ["input", "kept"],
    ]);
    expect(await kept("stream")).toEqual([
      ["result", "410"],
      ["input", "kept"],
    ]);
    await secrets({ DISABLE_REQUEST_LOGS: "true", DISABLE_RESPONSE_LOGS: "true" });
    expect(await kept()).toEqual([
      ["result", "410"],
      ["input", "410"],
    ]);
    expect(await kept("stream")).toEqual([
      ["result", "410"],
      ["input", "410"],
    ]);
    // Its caller has not got them yet.
    expect(await kept("run", "?async=true")).toEqual(all);
    await secrets({ DISABLE_REQUEST_LOGS: "yes" });
    expect(await kept()).toEqual(all);
  },
);
