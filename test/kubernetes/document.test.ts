import { internals } from "../support/test-settings.ts";
import { cpSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { Command, MILLRACE, scratchDirectory } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { commandsOf, tryCommand } from "../support/document-commands.ts";
import { writeKubectl } from "../support/kubernetes/kubectl.ts";
import { podFlags } from "../support/kubernetes/pod-service.ts";
import { TEST_CLUSTER, TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();

/** What the document has one type, in that order. */
const COMMANDS = [
  "kubectl apply -f packaging/kubernetes/role.yaml",
  "(umask 077 && packaging/kubernetes/kubeconfig.sh > millrace.kubeconfig)",
  "bin/millrace doctor",
  "bin/millrace serve",
  "bin/millrace deploy examples/hello --yes",
  "bin/millrace call hello name=Ada",
  "kubectl get pods -n millrace",
];

describe.skipIf(!TEST_CLUSTER)("docs/kubernetes.md", () => {
  verifies("docs.blocks", "its commands lead from nothing to a call", async () => {
    expect(commandsOf("docs/kubernetes.md")).toEqual(COMMANDS);
    const [apply = "", kubeconfig = "", doctor = "", , deploy = "", call = "", pods = ""] = COMMANDS;
    const namespace = await TestNamespace.use("millrace");
    const folder = scratchDirectory();
    for (const name of ["packaging", "examples"])
      cpSync(path.join(REPOSITORY, name), path.join(folder, name), { recursive: true });
    mkdirSync(path.join(folder, "bin"));
    symlinkSync(MILLRACE, path.join(folder, "bin", "millrace"));
    writeKubectl(folder);
    const { databaseUrl } = await databases.fresh("postgres");
    const { seatUrl, kubernetesImage } = await podFlags(namespace);
    const env = {
      PATH: `${folder}:${process.env["PATH"]}`,
      KUBECONFIG: namespace.cluster.kubeconfig,
      MILLRACE_DATABASE_URL: databaseUrl ?? "",
      MILLRACE_ENGINE: "kubernetes",
      MILLRACE_KUBERNETES_CONFIG: "millrace.kubeconfig",
      MILLRACE_KUBERNETES_IMAGE: kubernetesImage ?? "",
      MILLRACE_SEAT_URL: seatUrl ?? "",
      MILLRACE_DATA_DIR: path.join(folder, ".millrace"),
      MILLRACE_ISOLATION: "none",
      MILLRACE_CONTAINER_ENGINE: "none",
      ...internals({ keepSeats: false }),
    };
    const attempt = async (command: string): Promise<string> =>
      await tryCommand(command, { cwd: folder, env });
    await attempt(apply);
    await attempt(kubeconfig);
    expect(statSync(path.join(folder, "millrace.kubeconfig")).mode & 0o077).toBe(0);
    expect(await attempt(doctor)).toMatch(/^ok +kubernetes .*: all \d+ permissions$/m);
    const service = new Command(MILLRACE, ["serve"], { cwd: folder, env });
    onTestFinished(async () => {
      service.child.kill("SIGTERM");
      await service.exited;
    });
    await service.printed(/millrace is up/);
    await attempt(deploy);
    expect(await attempt(call)).toContain("Hello, Ada!");
    // It answers before the cluster says that it runs.
    await until("its pod is shown", async () =>
      /^p-\S+-hello-v1-\S+ +1\/1 +Running/m.test(await attempt(pods)),
    );
  });
});
