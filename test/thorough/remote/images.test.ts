import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { remoteService, type RemoteService } from "../../support/remote/remote-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { makeZip } from "../../support/zip-maker.ts";
import { verifies } from "../../verifies.ts";
import { cancelBuild } from "../../integration/remote/cancel-build.ts";
import { DeploySite, answering, bundle } from "../../integration/deploys/site.ts";

const databases = testDatabases();
const REGISTRY = "registry.example:5000/millrace";
const DIGEST = `sha256:${"a".repeat(64)}`;
/** What a server answers with is in its image alone. */
const SERVER = `
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = "%s from %s" % (os.environ["GREETING"], os.getcwd())
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
`;

type Seen = {
  words: string[];
  dockerfile: string;
  context: string[];
  /** What BuildKit may ask for with the Dockerfile. */
  beside: string[];
  policy: object;
  logins: { auths: Record<string, object> };
  certificates: string;
};
type Site = RemoteService & {
  readonly site: DeploySite;
  /** Where BuildKit would be. */
  readonly buildkit: string;
  readonly seen: () => Seen;
};

/** A place with a played buildctl, which has an image of that configuration in its BuildKit. */
async function buildingImages(config: object = {}): Promise<Site> {
  const buildkit = await mkdtemp(path.join(tmpdir(), "millrace-buildkit-"));
  onTestFinished(() => rm(buildkit, { recursive: true, force: true }));
  await writeFile(path.join(buildkit, "config.json"), JSON.stringify(config));
  const logins = path.join(buildkit, "logins.json");
  await writeFile(logins, JSON.stringify({ auths: { "registry.example:5000": { auth: "operator" } } }));
  const tools = {
    script: path.join(REPOSITORY, "python/millrace_agent/image.py"),
    buildctl: path.join(REPOSITORY, "test/support/remote/played-buildctl.py"),
    address: buildkit,
    logins,
    certificates: "/etc/buildkit",
  };
  const remote = await remoteService(databases, {}, { builds: true, images: { registry: REGISTRY, tools } });
  const seen = (): Seen => JSON.parse(readFileSync(path.join(buildkit, "seen.json"), "utf8")) as Seen;
  return { ...remote, site: new DeploySite(remote.on), buildkit, seen };
}

function withDockerfile(dockerfile: string, port = 8000): Buffer {
  const toml = `[runtime.custom]\ndockerfile_path = "Dockerfile"\nport = ${port}\n`;
  const files = { "millrace.toml": toml, Dockerfile: dockerfile };
  return makeZip(Object.entries(files).map(([name, content]) => ({ name, content })));
}

verifies(
  ["buildkit.built", "buildkit.start", "buildkit.logins"],
  "a Dockerfile is built, pushed and started as it says",
  async () => {
    const port = await freePort();
    const app = await buildingImages({
      Entrypoint: ["python3", "-c", SERVER],
      Cmd: [String(port)],
      Env: ["PATH=/nowhere", "GREETING=hello"],
      WorkingDir: "/usr",
    });
    const { site, on, seen } = app;
    const auths = { "docker.io": { auth: "mine" }, "https://registry.example:5000/v2/": { auth: "stolen" } };
    const { buildId, status } = await site.deploy(
      "app",
      withDockerfile("\uFEFF# syntax=evil/frontend\nFROM base\n", port),
      {
        dockerAuth: JSON.stringify({ auths, credsStore: "program" }),
        shellCommands: ["echo never"],
      },
    );
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    const name = `${REGISTRY}/${site.projectId}/app`;
    const { words, dockerfile, context, beside, policy, logins, certificates } = seen();
    expect(certificates).toBe("/etc/ssl/certs:/etc/pki/tls/certs:/etc/buildkit");
    expect(words.join(" ")).toContain(`"name=${name}:${buildId},${name}:cache",push=true`);
    expect([context, beside]).toEqual([["Dockerfile", "millrace.toml"], ["Dockerfile"]]);
    // Directives count only on the first lines.
    expect(dockerfile).toMatch(/^# Directives are not read\.\n# syntax=evil\/frontend\nFROM base\n$/);
    const rule = (action: string, match_type: string, identifier: string) => ({
      action,
      selector: { identifier, match_type },
    });
    expect(policy).toEqual({
      rules: [
        rule("DENY", "WILDCARD", `docker-image://${REGISTRY}/*`),
        rule("DENY", "REGEX", "^docker-image://[^/]+/(.*/)?p-[a-z0-9]{1,40}/"),
        rule("ALLOW", "WILDCARD", `docker-image://${REGISTRY}/${site.projectId}/*`),
      ],
    });
    expect(logins).toEqual({
      auths: { "docker.io": { auth: "mine" }, "registry.example:5000": { auth: "operator" } },
    });
    const version = (await on.service.store.versions.find(buildId))!;
    expect(version.config.built?.reference).toBe(`${name}@${DIGEST}`);
    const log = await site.log("app", buildId);
    expect(log).toContain("load build definition from Dockerfile");
    expect(log).toContain("ignoring shell_commands");
    for (const secret of ["operator", "mine", "stolen"]) expect(log).not.toContain(secret);
    expect((await on.call("app")).text).toBe("hello from /usr");
  },
);

verifies(
  "buildkit.built",
  "system packages are laid over an image, in which the app is then built",
  async () => {
    const { site, on, seen, place } = await buildingImages();
    const toml = '[dependencies.apt]\nffmpeg = "latest"\n';
    const zip = bundle(answering("here"), { "millrace.toml": toml });
    const { buildId, status } = await site.deploy("app", zip, { shellCommands: ["echo built"] });
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    expect(seen().dockerfile).toMatch(/\nFROM .*python.*\nUSER 0\nRUN .*apt-get install .*'ffmpeg'/);
    const version = (await on.service.store.versions.find(buildId))!;
    expect(version.config.built).toEqual({
      reference: `${REGISTRY}/${site.projectId}/app@${DIGEST}`,
      start: null,
    });
    expect(await site.answer("app")).toBe("here");
    // The image, the packages, and the app itself.
    expect(place.seats.length).toBeGreaterThanOrEqual(3);
  },
);

verifies("buildkit.reasons", "what fails an image is the build's reason", async () => {
  const { site, buildkit } = await buildingImages();
  const failed = async (dockerfile: string): Promise<string | null> => {
    const { buildId, status } = await site.deploy("app", withDockerfile(dockerfile));
    expect(status).toBe("build_failure");
    return await site.message("app", buildId);
  };
  expect(await failed("FROM base\nRUN false\n")).toBe(
    'the image could not be built: ERROR: failed to solve: process "/bin/sh -c false" did not complete: exit code: 1',
  );
  expect(await failed("FROM base\nRUN push\n")).toMatch(
    /^the image could not be pushed, deploy again when the registry answers: .*connection refused$/,
  );
  expect(await failed("FROM base\nRUN login\n")).toMatch(
    /^the image could not be pushed: the operator has to give MILLRACE_REGISTRY_SECRET a login .*401/,
  );
  expect(await failed("FROM base\n")).toContain("neither ENTRYPOINT nor CMD");
  await rm(path.join(buildkit, "logins.json"));
  expect(await failed("FROM base\n")).toMatch(
    /^the image could not be built: the Secret that MILLRACE_REGISTRY_SECRET names is not in the namespace/,
  );
  expect(await site.leftovers()).toEqual([]);
});

verifies("buildkit.projects", "an image of another project is not run", async () => {
  const { site, place } = await buildingImages();
  const deploy = async (image: string): Promise<string | null> => {
    const toml = `[deployment]\ndocker_base_image_url = "${image}"\n`;
    const { buildId } = await site.deploy("app", bundle(answering("x"), { "millrace.toml": toml }));
    return await site.message("app", buildId);
  };
  const others = [
    `${REGISTRY}/p-other/app@${DIGEST}`,
    "Registry.example:5000/millrace/p-other/app:1",
    // The same registry by another name, and as the mirror of another.
    "registry.example:05000/millrace/p-other/app:1",
    "millrace/p-other/app:cache",
    "p-other/app:cache",
  ];
  for (const image of others)
    expect(await deploy(image)).toBe(
      `deployment.docker_base_image_url: ${image} is not an image of this project`,
    );
  expect(place.seats).toEqual([]);
  expect(await deploy(`${REGISTRY}/${site.projectId}/app@${DIGEST}`)).toBeNull();
});

verifies("pod-builds.named", "an image is not named by its id", async () => {
  const { on, place } = await remoteService(databases, {}, { builds: true });
  const site = new DeploySite(on);
  for (const image of ["sha256:a", DIGEST]) {
    const toml = `[deployment]\ndocker_base_image_url = "${image}"\n`;
    const { buildId } = await site.deploy("app", bundle(answering("x"), { "millrace.toml": toml }));
    expect(await site.message("app", buildId)).toBe(
      `deployment.docker_base_image_url: ${image} is an id; name the image by its repository`,
    );
  }
  expect(place.seats).toEqual([]);
});

verifies("buildkit.left", "an image whose build is cancelled leaves nothing", async () => {
  const building = await buildingImages();
  const { site } = building;
  const { buildId, uploadUrl } = await site.begin("app");
  await site.put(uploadUrl, withDockerfile("FROM base\nRUN sleep 600\n"));
  await cancelBuild(building, buildId);
});
