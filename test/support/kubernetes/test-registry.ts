import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A registry on this machine that asks for a login, and an image of BuildKit that the machines of a cluster have. */
export type TestRegistry = {
  /** `host:port`, for pods and machines alike. */
  readonly host: string;
  /** Who made its certificate, as PEM. */
  readonly authority: string;
  readonly login: { readonly username: string; readonly password: string };
  readonly buildkitImage: string;
  /** An image in it with a shell and a Python. */
  readonly baseImage: string;
  /** Where its certificates, settings and images are. */
  readonly folder: string;
};

const LOGIN = { username: "millrace", password: "a-password" };
/** Of that password, by bcrypt with the fewest rounds. */
const HASHED = "$2b$04$V0dBYonL97CKKd3VL2erbuXFfRZu3AQL5d.XYvZjXqriLHGVLEMNO";
const BUILDKIT = "localhost/buildkit:test";
const PORT = 15_443;

/** The files of a registry that has not started yet. */
export type RegistryFolder = { readonly tools: string; readonly folder: string };

/**
 * Makes the certificates of a registry, if `MILLRACE_TEST_BUILDKIT` names a folder with `buildkit.tar`, an image called
 * `localhost/buildkit:test`, and `docker-registry`, a program. What is started later trusts them.
 */
export function prepareRegistry(host: string): RegistryFolder | null {
  const { MILLRACE_TEST_BUILDKIT: tools } = process.env;
  if (!tools) {
    process.stderr.write(
      "\nskipped: there is no BuildKit. Set MILLRACE_TEST_BUILDKIT, see CONTRIBUTING.md\n",
    );
    return null;
  }
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-registry-"));
  const openssl = (...words: string[]): void =>
    void execFileSync("openssl", words, { cwd: folder, stdio: ["ignore", "ignore", "ignore"] });
  const key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
  openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test");
  openssl("req", ...key, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=registry");
  writeFileSync(path.join(folder, "names"), `subjectAltName=IP:${host}\n`);
  const signing = [
    "-CAkey",
    "ca.key",
    "-CAcreateserial",
    "-out",
    "own.pem",
    "-extfile",
    "names",
    "-days",
    "2",
  ];
  openssl("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", ...signing);
  process.env["SSL_CERT_FILE"] = path.join(folder, "ca.pem");
  return { tools, folder };
}

/** Starts it, with an image to build on, which `push` puts there. */
export function serveRegistry(
  { tools, folder }: RegistryFolder,
  address: string,
  push: (name: string, words: readonly string[]) => void,
): { registry: TestRegistry; stop: () => void } {
  const inside = (name: string): string => path.join(folder, name);
  const host = `${address}:${PORT}`;
  writeFileSync(inside("users"), `${LOGIN.username}:${HASHED}\n`);
  const server = spawnRegistry(folder, PORT, { htpasswd: { realm: "test", path: inside("users") } }, tools);
  const stop = (): void => {
    server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  const baseImage = `${host}/base/python:1`;
  push(baseImage, ["--user", `${LOGIN.username}:${LOGIN.password}`, "--tlscacert", inside("ca.pem")]);
  const authority = readFileSync(inside("ca.pem"), "utf8");
  return { registry: { host, authority, login: LOGIN, buildkitImage: BUILDKIT, baseImage, folder }, stop };
}

/** Starts a registry over the files of a folder, which asks for a login in that way. */
export function spawnRegistry(
  folder: string,
  port: number,
  auth: object,
  tools = process.env["MILLRACE_TEST_BUILDKIT"] ?? "",
): ChildProcess {
  const inside = (name: string): string => path.join(folder, name);
  const config = {
    version: 0.1,
    log: { level: "error" },
    storage: { filesystem: { rootdirectory: inside("data") } },
    http: { addr: `0.0.0.0:${port}`, tls: { certificate: inside("own.pem"), key: inside("own.key") } },
    auth,
  };
  const settings = inside(`${port}.yml`);
  writeFileSync(settings, JSON.stringify(config));
  return spawn(path.join(tools, "docker-registry"), ["serve", settings], { stdio: "ignore" });
}
