import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { makeImage, makeWorkerImage } from "../../scripts/worker-image.ts";
import { checkKubernetes } from "../../src/cli/operator/doctor/engine-checks.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { testDatabases } from "../support/databases.ts";
import { fill } from "../support/images/base-image.ts";
import { giveToMachines } from "../support/kubernetes/cluster-setup.ts";
import { podService } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { DeploySite, bundle } from "../integration/deploys/site.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
const LAME = "localhost/millrace-worker:lame";
const MAIN = "def run():\n    return 1\n";
const TOML = "[hardware]\ncpu = 0.5\nmemory = 0.2\n";
const REASON = /exit code 1: Python 3\.\d+ lacks a module that the agent needs: No module named 'json'/;

/** A worker image from whose Python one module was removed, on every machine of the cluster. */
async function giveLameImage(clusterFolder: string): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-lame-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string): string => path.join(folder, name);
  mkdirSync(at("root"));
  await fill(at("root"));
  const { path: python } = await findInterpreter("python3");
  const told = execFileSync(python, ["-I", "-c", "import json; print(json.__path__[0])"]);
  const json = told.toString().trim();
  // A file by this name in an upper layer removes what lies below it.
  mkdirSync(path.join(at("removed"), path.dirname(json)), { recursive: true });
  writeFileSync(path.join(at("removed"), path.dirname(json), ".wh.json"), "");
  await makeWorkerImage({ base: null, layers: [at("root")], name: LAME, out: at("worker.tar") });
  await makeImage({ base: at("worker.tar"), layers: [at("removed")], name: LAME, out: at("lame.tar") });
  giveToMachines(path.dirname(clusterFolder), at("lame.tar"));
}

const clusterFolder = TEST_CLUSTER?.folder ?? null;

describe.skipIf(clusterFolder === null)("a pod that fails", () => {
  verifies(
    ["kubernetes.last-words", "kubernetes.doctor-pod"],
    "a module that the worker image lacks is named in the build, the 503, the app's log and by doctor",
    async () => {
      await giveLameImage(clusterFolder!);
      const apps = { app: { main: MAIN, toml: TOML } };
      const { on, namespace } = await podService(databases, apps, { kubernetesImage: LAME });
      const { status, json } = await on.call("app");
      expect([status, json.message]).toEqual([503, expect.stringMatching(REASON)]);
      await until("the app's log has it", () => on.logs.some(({ text }) => REASON.test(text)));

      const site = new DeploySite(on);
      const built = await site.deploy("built", bundle(MAIN, {}));
      expect(built.status).toBe("build_failure");
      expect(await site.message("built", built.buildId)).toMatch(
        /^the build's seat p-\S+-built-build-\S+ ended before it reached the service: exit code 1: Python 3\.\d+ lacks a module .*: No module named 'json'/,
      );
      expect(await site.log("built", built.buildId)).toMatch(REASON);

      const found = await checkKubernetes(on.settings, {});
      expect(found.at(-1)).toMatchObject({
        status: "fail",
        message: expect.stringMatching(/lacks a module: No module named 'json'/) as string,
      });
      await namespace.untilEmpty();
    },
  );
});
