import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, answering, bundle } from "./site.ts";

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());

verifies(
  "deploy.config",
  "all that is wrong with a payload is told at once, and nothing is begun",
  async () => {
    const site = here();
    const { status, json } = await site.ask("POST", "apps", {
      name: "faulty",
      minReplicaCount: -1,
      cooldownPeriodSeconds: "soon",
      responseGracePeriodSeconds: 43_201,
      memory: "much",
      cerebrium_toml: "[cerebrium.scaling]\nreplica_concurrency = 0\n",
    });
    expect([status, json.code]).toEqual([422, "deploy_invalid"]);
    const problems = (json.details as { problem: string }[]).map(({ problem }) => problem);
    for (const key of [
      /^minReplicaCount must be a whole number from 0 to 2000, got -1$/,
      /^cooldownPeriodSeconds must be a duration from 0s to 1h, got "soon"$/,
      /^responseGracePeriodSeconds must be a duration from 1s to 12h, got 43201$/,
      /^memory must be /,
      /^cerebrium\.scaling\.replica_concurrency must be .*got 0$/,
    ]) {
      expect(problems).toContainEqual(expect.stringMatching(key));
    }
    expect(problems).toHaveLength(5);
    expect((await site.ask("GET", `apps/${site.appId("faulty")}`)).status).toBe(404);
  },
);

verifies(
  "deploy.config",
  "all that is wrong with the file in the zip is in the log, and fails the build",
  async () => {
    const site = here();
    const toml = '[scaling]\ncooldown = "soon"\nmax_replicas = 0\ncooldwn = 3\n';
    const { buildId, status } = await site.deploy("file", bundle(answering("x"), { "millrace.toml": toml }));
    expect(status).toBe("build_failure");
    const log = await site.log("file", buildId);
    expect(log).toContain("scaling.cooldown must be a duration");
    expect(log).toContain("scaling.max_replicas must be a whole number");
    expect(await site.message("file", buildId)).toMatch(/^scaling\..* \(and 1 more\)$/);
  },
);

verifies(
  "deploy.config",
  "the payload wins over its cerebrium_toml, that over the file in the zip, and an unknown key is warned of",
  async () => {
    const site = here();
    const file =
      "[cerebrium.scaling]\nmax_replicas = 3\ncooldown = 3\nreplica_concurrency = 3\nmax_que = 3\n";
    const text = "[cerebrium.scaling]\nmax_replicas = 4\ncooldown = 4\n";
    const { buildId, status } = await site.deploy(
      "layers",
      bundle(answering("x"), { "cerebrium.toml": file }),
      { maxReplicaCount: 5, minReplicaCount: null, cerebrium_toml: text },
    );
    expect(status).toBe("success");
    const version = await site.test.service.store.versions.find(buildId);
    expect(version?.config.scaling).toMatchObject({
      maxReplicas: 5,
      cooldownSeconds: 4,
      replicaConcurrency: 3,
      minReplicas: 0,
    });
    expect(version?.config.deployment.name).toBe("layers");
    expect(await site.log("layers", buildId)).toContain(
      "warning: cerebrium.scaling.max_que is not a known key; did you mean cerebrium.scaling.max_queue?",
    );
  },
);

verifies(
  ["config.batching.keys", "config.batching.max-queue"],
  "batches are stored with their version and shown, stay through PATCH, and end with the next deploy",
  async () => {
    const site = here();
    const main = "def embed(texts):\n    return texts\n";
    const toml = '[scaling]\nmax_queue = 32\n[batching.embed]\nkey = "texts"\n';
    const { buildId, status } = await site.deploy("batched", bundle(main, { "millrace.toml": toml }));
    expect(status).toBe("success");
    expect(await site.log("batched", buildId)).toContain(
      "warning: batching.embed.max_size is 64, but scaling.max_queue lets only 32 callers wait: batches of more than 32 cannot fill",
    );
    const app = `apps/${site.appId("batched")}`;
    expect((await site.ask("PATCH", app, { replicaConcurrency: 2 })).status).toBe(200);
    const { json } = await site.ask("GET", `${app}/configuration`);
    const shown = (json.keys as { key: string; value: unknown }[]).filter(({ key }) =>
      key.startsWith("batching."),
    );
    expect(Object.fromEntries(shown.map(({ key, value }) => [key, value]))).toEqual({
      "batching.embed.max_size": 64,
      "batching.embed.max_wait": 0.01,
      "batching.embed.key": "texts",
      "batching.embed.size": null,
      "batching.embed.target_latency": null,
      "batching.embed.on_error": "split",
      "batching.embed.stepper": null,
    });
    const next = await site.deploy("batched", bundle(main));
    const version = await site.test.service.store.versions.find(next.buildId);
    expect(version?.config).not.toHaveProperty("batching");
  },
);

test("a body that is no object is refused as such", async () => {
  const site = here();
  for (const body of [[], "x", 1, null]) {
    expect((await site.ask("POST", "apps", body)).status).toBe(400);
  }
  const { status, json } = await site.ask("POST", "apps", {});
  expect([status, json.details]).toEqual([422, [{ problem: "name is required: the app's name" }]]);
});

verifies(
  "config.network",
  "without isolation the log says that network = false is not enforced",
  async () => {
    const site = here();
    const toml = "[deployment]\nnetwork = false\n";
    const { buildId, status } = await site.deploy(
      "offline",
      bundle(answering("x"), { "millrace.toml": toml }),
    );
    expect(status).toBe("success");
    expect(await site.log("offline", buildId)).toContain("warning: network = false is not enforced");
  },
);
