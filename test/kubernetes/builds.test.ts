import path from "node:path";
import { describe, expect, onTestFinished, vi } from "vitest";
import { testDatabases } from "../support/databases.ts";
import { podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";
import { testIndex, writeWheels } from "../integration/builds/wheels.ts";
import { DeploySite, answering, bundle } from "../integration/deploys/site.ts";

const databases = testDatabases();

const MAIN = `
import os, sys, polite
def run():
    here = os.path.dirname(os.path.abspath(__file__))
    return [polite.word, open(os.path.join(here, "made")).read().strip(), os.uname().nodename]
`;
// As little as a pod can ask for, so that all fit.
const TOML = "[hardware]\ncpu = 0.5\nmemory = 0.2\n[scaling]\ncooldown = 1\n";
/** Builds reach what is public, and what the operator names. */
const INDEX = { egressAllow: `${TEST_CLUSTER?.hostAddress}/32` };
const files = (more: Record<string, string> = {}) => ({ "millrace.toml": TOML, ...more });

/** A package index that pods reach, which the service's own pip settings name. */
async function index(folder: string): Promise<void> {
  const host = TEST_CLUSTER?.hostAddress ?? "";
  const wheels = [{ name: "polite", version: "1.0", module: "word = 'please'" }];
  const { url } = await testIndex(await writeWheels(path.join(folder, "wheels"), wheels), {}, host);
  vi.stubEnv("PIP_INDEX_URL", url);
  vi.stubEnv("PIP_TRUSTED_HOST", host);
  onTestFinished(() => void vi.unstubAllEnvs());
}

describe.skipIf(!TEST_CLUSTER)("builds in pods", () => {
  verifies(
    ["pod-builds.build", "pod-builds.reuse"],
    "packages come from the index into a pod, and run in the next ones",
    async () => {
      const { on, namespace } = await podService(databases, {}, INDEX);
      await index(on.directory);
      const site = new DeploySite(on);
      const payload = { shellCommands: ["hostname=$(cat /etc/hostname); echo $hostname > made"] };
      const zip = bundle(MAIN, files({ "requirements.txt": "polite\n" }));
      const first = await site.deploy("app", zip, payload);
      expect([first.status, await site.message("app", first.buildId)]).toEqual(["success", null]);
      const [word, builtIn, runsIn] = (await site.answer("app")) as string[];
      expect([word, builtIn, runsIn]).toEqual([
        "please",
        expect.stringMatching(/^p-[a-z0-9]+-app-build-s-/),
        expect.stringMatching(/^p-[a-z0-9]+-app-v1-s-/),
      ]);
      expect(builtIn).not.toBe(runsIn);
      const second = await site.deploy("app", zip, payload);
      expect(await site.log("app", second.buildId)).toContain("reusing the environment");
      await until("it scales to zero", () => on.ready("app") === 0);
      await namespace.untilEmpty();
    },
  );

  verifies("pod-builds.image", "an app in an image of its own has the agent brought to it", async () => {
    const { on } = await podService(databases, {}, INDEX);
    await index(on.directory);
    const site = new DeploySite(on);
    const image = TEST_CLUSTER?.standInImage ?? "";
    const toml = `[deployment]\ndocker_base_image_url = "${image}"\n${TOML}`;
    const zip = bundle(MAIN, {
      "millrace.toml": toml,
      "requirements.txt": "polite\n",
      made: "in the bundle",
    });
    const { buildId, status } = await site.deploy("app", zip);
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    expect(await site.answer("app")).toEqual(["please", "in the bundle", expect.any(String)]);
  });

  verifies("pod-builds.lost", "what keeps a build's pod from starting is told; nothing is left", async () => {
    const { on, namespace } = await podService(databases, {}, { kubernetesBuildWaitMs: 20_000 });
    const site = new DeploySite(on);
    const missing = "localhost/no-such-image:1";
    const toml = `[deployment]\ndocker_base_image_url = "${missing}"\n${TOML}`;
    const unpulled = await site.deploy("missing", bundle(answering("x"), { "millrace.toml": toml }));
    expect([unpulled.status, await site.message("missing", unpulled.buildId)]).toEqual([
      "build_failure",
      expect.stringMatching(/did not start within 20 s: its image cannot be pulled: .*no-such-image/),
    ]);
    await namespace.untilEmpty();
  });

  verifies(
    ["pod-builds.lost", "pod-builds.cancel"],
    "a build that is cancelled, or whose pod is deleted, leaves nothing",
    async () => {
      const { on, namespace } = await podService(databases, {});
      const site = new DeploySite(on);
      const sleeping = { preBuildCommands: ["echo asleep; sleep 600"] };
      const begin = async (app: string): Promise<string> => {
        const { buildId, uploadUrl } = await site.begin(app, sleeping);
        await site.put(uploadUrl, bundle(answering("x"), files()));
        await site.logged(app, buildId, "asleep");
        return buildId;
      };
      const cancelled = await begin("cancelled");
      await site.cancel("cancelled", cancelled);
      await namespace.untilEmpty();

      const deleted = await begin("deleted");
      const [pod = ""] = await namespace.left(["pods"]);
      await namespace.remove("api/v1", "pods", path.basename(pod));
      expect(await site.ended("deleted", deleted)).toBe("build_failure");
      expect(await site.message("deleted", deleted)).toMatch(/^the build's seat p-\S+-deleted-build-\S+ /);
      await namespace.untilEmpty();
    },
  );
});
