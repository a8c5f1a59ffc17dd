import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { storageFolder } from "../../../src/host/data-folders.ts";
import { holders } from "../../support/gpus/holders.ts";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { answering, bundle, DeploySite } from "../deploys/site.ts";

const toml = (hardware: string, scaling = ""): Record<string, string> => ({
  "millrace.toml": `[hardware]\n${hardware}\n[scaling]\nmax_queue_seconds = "60s"\n${scaling}`,
});

const ONE = { count: 1, model: "H100", memoryGb: 80 };
const H100 = 'compute = "H100"';
const BROKEN = 'raise ValueError("broken")\n';

const HOLD = `
import os, time

def run():
    while not os.path.exists(os.environ["PERSISTENT_STORAGE"] + "/go"):
        time.sleep(0.01)
    return "held"
`;

async function deploySite(...gpus: ConstructorParameters<typeof FakeGpus>[0]): Promise<DeploySite> {
  return new DeploySite(await testService({}, WITHOUT_WALLS, { gpus: new FakeGpus(gpus) }));
}

verifies(
  ["gpu.deploy", "gpu.deploy.failed"],
  "a version that has no room beside the one that serves starts after that one, which comes back if it fails",
  async () => {
    const site = await deploySite(ONE);
    const files = toml(H100, "min_replicas = 1");
    expect((await site.deploy("app", bundle(answering("one"), files))).status).toBe("success");
    expect(await site.answer("app")).toBe("one");
    // Calls that arrive all the time are answered, by one version or the other.
    const answers: unknown[] = [];
    const over = new AbortController();
    const calling = (async () => {
      while (!over.signal.aborted) answers.push(await site.answer("app"));
    })();
    const second = await site.deploy("app", bundle(answering("two"), files));
    const broken = await site.deploy("app", bundle(BROKEN, files));
    over.abort();
    await calling;
    expect([second.status, broken.status]).toEqual(["success", "init_failure"]);
    expect(new Set(answers)).toEqual(new Set(["one", "two"]));
    expect(await site.log("app", second.buildId)).toContain("that one ends first, and calls wait meanwhile");
    expect(await site.answer("app")).toBe("two");
    await until("one replica has it", async () => (await holders(site.test)).join() === "app 0");
  },
);

verifies("gpu.deploy", "nothing ends for what has room, nor for what can never start", async () => {
  const site = await deploySite({ ...ONE, count: 2 });
  // It has no place here, and takes none from others.
  const absent = toml('compute = "H200"', "min_replicas = 1");
  expect((await site.deploy("absent", bundle(answering("none"), absent))).status).toBe("success");
  const first = await site.deploy("app", bundle(answering("one"), absent));
  const files = toml(H100, "min_replicas = 1");
  const second = await site.deploy("app", bundle(answering("two"), files));
  expect(await site.log("app", second.buildId)).not.toContain("that one ends first");
  const third = await site.deploy("app", bundle(answering("three"), files));
  expect(await site.log("app", third.buildId)).not.toContain("that one ends first");
  const replicas = async (): Promise<unknown[]> => {
    const { json } = await site.ask("GET", `apps/${site.appId("app")}/containers`);
    return (json as { containerId: string }[]).map(({ containerId }) => containerId);
  };
  await until("the earlier version has ended", async () => (await replicas()).length === 1);
  const before = await replicas();
  const back = await site.ask("POST", `apps/${site.appId("app")}/rollback`, { buildId: first.buildId });
  expect([back.status, back.json.code]).toEqual([503, "app_not_ready"]);
  expect(await replicas()).toEqual(before);
});

verifies(
  "gpu.deploy",
  "where others have the GPUs, the version that serves ends for the new one after max_queue_seconds",
  async () => {
    const site = await deploySite({ ...ONE, count: 2 });
    const files = (text: string): Record<string, string> => ({
      "millrace.toml": toml(H100, text)["millrace.toml"]!.replace("60s", "1s"),
    });
    await site.deploy("app", bundle(answering("one"), files("min_replicas = 1")));
    await site.deploy("other", bundle(HOLD, files("")));
    const held = site.answer("other");
    await until("both are in use", async () => (await holders(site.test)).length === 2);
    const { status, buildId } = await site.deploy("app", bundle(answering("two"), files("min_replicas = 1")));
    expect([status, await site.answer("app")]).toEqual(["success", "two"]);
    expect(await site.log("app", buildId)).toContain("that one ends first");
    writeFileSync(path.join(storageFolder(site.projectId, site.test.settings.dataDir), "go"), "");
    expect(await held).toBe("held");
  },
);

verifies(
  ["gpu.minimums", "gpu.max-replicas"],
  "minimums that do not fit together are refused by name, at deploy and later; max_replicas only warns",
  async () => {
    const site = await deploySite({ ...ONE, count: 2 });
    await site.deploy("chat", bundle(answering("one"), toml(H100, "min_replicas = 1")));
    const two = await site.deploy("vision", bundle(answering("one"), toml(H100, "min_replicas = 2")));
    expect(two.status).toBe("build_failure");
    expect(await site.message("vision", two.buildId)).toBe(
      "min_replicas = 2 of vision does not fit on the GPUs of this machine beside those of chat (min_replicas = 1)",
    );
    const one = await site.deploy("vision", bundle(answering("one"), toml(H100, "max_replicas = 5")));
    expect(one.status).toBe("success");
    expect(await site.log("vision", one.buildId)).toContain(
      "warning: max_replicas = 5, but the GPUs of this machine have room for 2 replicas",
    );
    const changed = await site.ask("PATCH", `apps/${site.appId("vision")}`, { minReplicaCount: 2 });
    expect([changed.status, changed.json.message]).toEqual([
      400,
      "minReplicaCount: min_replicas = 2 of vision does not fit on the GPUs of this machine beside those of chat (min_replicas = 1)",
    ]);
    expect((await site.ask("PATCH", `apps/${site.appId("vision")}`, { minReplicaCount: 1 })).status).toBe(
      200,
    );
  },
);

verifies("gpu.minimums", "of two deploys at the same moment one is refused if both do not fit", async () => {
  const site = await deploySite(ONE);
  const files = toml(H100, "min_replicas = 1");
  const names = ["chat", "vision"];
  const ended = await Promise.all(names.map((name) => site.deploy(name, bundle(answering("one"), files))));
  expect(ended.map(({ status }) => status).toSorted()).toEqual(["build_failure", "success"]);
  const refused = ended.findIndex(({ status }) => status === "build_failure");
  expect(await site.message(names[refused]!, ended[refused]!.buildId)).toBe(
    `min_replicas = 1 of ${names[refused]} does not fit on the GPUs of this machine beside those of ${names[1 - refused]} (min_replicas = 1)`,
  );
});

verifies(
  "gpu.never",
  "a model that the machine lacks is a warning at deploy, which succeeds; the app shows what it asks for",
  async () => {
    const site = await deploySite({ count: 1, model: "T4", memoryGb: 16 });
    const files = toml(`${H100}\ngpu_memory = 20`);
    const { status, buildId } = await site.deploy("app", bundle(answering("one"), files));
    expect(status).toBe("success");
    expect(await site.log("app", buildId)).toContain("warning: calls will fail with no_gpu_free");
    expect(await site.answer("app")).toContain("no_gpu_free");
    const { json } = await site.ask("GET", `apps/${site.appId("app")}`);
    expect(json).toMatchObject({ hardware: "H100", gpuCount: "1", gpuMemory: "20" });
  },
);
