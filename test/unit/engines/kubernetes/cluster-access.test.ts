import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { findCluster } from "../../../../src/engines/kubernetes/cluster-access.ts";
import { kubernetesSettings } from "../../../support/kubernetes/sample.ts";
import { verifies } from "../../../verifies.ts";

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-kubeconfig-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

function config(user: string, cluster = "server: https://10.1.2.3:6443"): string {
  return `
apiVersion: v1
kind: Config
current-context: here
contexts:
- name: elsewhere
  context: {cluster: none, user: none}
- name: here
  context: {cluster: c, user: u, namespace: apps}
clusters:
- name: c
  cluster:
    ${cluster}
users:
- name: u
  user:
    ${user}
`;
}

function read(text: string, env: Record<string, string> = {}) {
  const file = path.join(scratch(), "config");
  writeFileSync(file, text);
  return findCluster(kubernetesSettings({ MILLRACE_KUBERNETES_CONFIG: file, ...env }), {});
}

verifies("kubernetes.access", "a kubeconfig with a token, and a namespace of our own above its", () => {
  const data = `server: https://10.1.2.3:6443/prefix\n    certificate-authority-data: ${base64("CA")}`;
  const access = read(config("token: t0ken", data));
  expect(access.server.href).toBe("https://10.1.2.3:6443/prefix");
  expect(access.tls).toEqual({ ca: "CA", rejectUnauthorized: true });
  expect(access.token()).toBe("t0ken");
  expect(access.namespace).toBe("apps");
  expect(read(config("token: t"), { MILLRACE_KUBERNETES_NAMESPACE: "own" }).namespace).toBe("own");
});

verifies("kubernetes.access", "certificates as data, and as files beside the kubeconfig", () => {
  const data = `client-certificate-data: ${base64("CERT")}\n    client-key-data: ${base64("KEY")}`;
  const access = read(config(data));
  expect(access.tls).toEqual({ cert: "CERT", key: "KEY", rejectUnauthorized: true });
  expect(access.token()).toBeNull();
  const folder = scratch();
  for (const name of ["ca.crt", "me.crt", "me.key"]) writeFileSync(path.join(folder, name), name);
  const file = path.join(folder, "config");
  const user = "client-certificate: me.crt\n    client-key: me.key";
  writeFileSync(file, config(user, "server: https://h:1\n    certificate-authority: ca.crt"));
  const { tls } = findCluster(kubernetesSettings({ MILLRACE_KUBERNETES_CONFIG: file }), {});
  expect(tls).toEqual({ ca: "ca.crt", cert: "me.crt", key: "me.key", rejectUnauthorized: true });
});

verifies("kubernetes.access", "a token file is read again: tokens are renewed", () => {
  const folder = scratch();
  const file = path.join(folder, "config");
  writeFileSync(file, config("tokenFile: token"));
  writeFileSync(path.join(folder, "token"), "one\n");
  const { token } = findCluster(kubernetesSettings({ MILLRACE_KUBERNETES_CONFIG: file }), {});
  expect(token()).toBe("one");
  writeFileSync(path.join(folder, "token"), "two\n");
  expect(token()).toBe("two");
});

verifies("kubernetes.access", "what a service cannot do is refused, with what to do instead", () => {
  expect(() => read(config("exec: {command: aws}"))).toThrow(/exec plugin.*packaging\/kubernetes/);
  expect(() => read(config("auth-provider: {name: gcp}"))).toThrow("auth-provider");
  expect(() => read(config("username: u"))).toThrow("password");
  expect(() => read(config("token: t", "server: http://10.1.2.3"))).toThrow("https://");
  expect(() => read(config("token: t", "server: https://h\n    proxy-url: socks5://p"))).toThrow("proxy-url");
  expect(() => read(config("token: t").replace("name: u", "name: other"))).toThrow('no user named "u"');
  expect(() => read("just: text")).toThrow("no kubeconfig: current-context");
  expect(() => read("a: &a [x]\nb: [*a".padEnd(64, "*"))).toThrow("config:");
});

verifies("kubernetes.access", "without a kubeconfig, the account of the pod it runs in", () => {
  const account = scratch();
  mkdirSync(account, { recursive: true });
  const settings = kubernetesSettings();
  expect(() => findCluster(settings, {}, account)).toThrow("set MILLRACE_KUBERNETES_CONFIG");
  for (const [name, text] of Object.entries({ token: "t1\n", "ca.crt": "CA\n", namespace: "home" }))
    writeFileSync(path.join(account, name), text);
  const access = findCluster(settings, { KUBERNETES_SERVICE_HOST: "fd00::1" }, account);
  expect(access.server.href).toBe("https://[fd00::1]/");
  expect(access.tls).toEqual({ ca: "CA", rejectUnauthorized: true });
  expect([access.token(), access.namespace]).toEqual(["t1", "home"]);
});
