import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { scratchDirectory } from "../../support/command-line.ts";
import { PlayedApi } from "../../support/kubernetes/played-api.ts";
import { containerState, shownPod } from "../../support/kubernetes/sample.ts";
import { verifies } from "../../verifies.ts";
import { doctor } from "./ask-doctor.ts";

verifies("kubernetes.doctor-pod", "doctor waits for its pod while a service has the port", async () => {
  let looks = 0;
  const ended = containerState({ terminated: { exitCode: 0, reason: "Completed" } }, { phase: "Running" });
  const { access } = await PlayedApi.open((asked) => {
    const isPod = /\/pods(\/|$)/.test(asked.path);
    if (asked.method === "GET") looks += 1;
    // It has ended when doctor looks for the third time.
    const pod = shownPod("s", looks < 3 ? { phase: "Pending" } : ended);
    asked.answer(200, isPod ? pod : { status: { allowed: true } });
    return true;
  });
  // Without it, doctor listens there itself, which alone would keep its process alive.
  const service = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  onTestFinished(() => void service.close());
  await once(service, "listening");
  const { port } = service.address() as AddressInfo;
  const folder = scratchDirectory();
  const kubeconfig = {
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u", namespace: "apps" } }],
    users: [{ name: "u", user: { token: access.token() } }],
    clusters: [{ name: "c", cluster: { server: access.server.origin, "insecure-skip-tls-verify": true } }],
  };
  writeFileSync(path.join(folder, "config"), JSON.stringify(kubeconfig));
  const { findings } = await doctor(path.join(folder, "data"), {
    MILLRACE_ENGINE: "kubernetes",
    MILLRACE_KUBERNETES_CONFIG: path.join(folder, "config"),
    MILLRACE_KUBERNETES_IMAGE: "worker:1",
    MILLRACE_SEAT_URL: `https://127.0.0.1:${port}`,
  });
  const found = findings.filter(({ check }) => check === "kubernetes").map(({ message }) => message);
  expect(found.at(-1)).toBe(`a pod of worker:1 has all that it needs, and reaches 127.0.0.1:${port}`);
  expect(looks).toBe(3);
});
