import { describe, expect } from "vitest";
import { checkKubernetes } from "../../src/cli/operator/doctor/engine-checks.ts";
import { testDatabases } from "../support/databases.ts";
import {
  BASE,
  IMAGE_REGISTRY,
  PORT,
  SMALL,
  buildingImages,
  withDockerfile,
} from "../support/kubernetes/image-site.ts";
import { TestNamespace } from "../support/kubernetes/real-cluster.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";
import { answering, bundle } from "../integration/deploys/site.ts";

const databases = testDatabases();
const SERVER = `
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = "|".join([os.environ["GREETING"], os.getcwd(), open("/made").read(), str(os.stat("/made").st_uid)])
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
http.server.HTTPServer(("0.0.0.0", ${PORT}), Answer).serve_forever()
`;
/** A step that tells what it can see, and makes a file that is somebody else's. */
const LOOK = [
  "import os",
  "print('secrets:', [p for p in ('/run/logins', '/run/millrace', '/run/buildkit') if os.path.exists(p)])",
  "open('/made', 'w').write('in a step')",
  "os.chown('/made', 33, 33)",
].join("; ");
const DOCKERFILE = `# syntax=nowhere.example/frontend
FROM ${BASE}
USER 0
ENV GREETING=hello
WORKDIR /srv
RUN ["python3", "-c", ${JSON.stringify(LOOK)}]
COPY server.py /srv/
CMD ["python3", "server.py"]
`;

describe.skipIf(!IMAGE_REGISTRY)("images that are built in pods", () => {
  verifies(
    [
      "buildkit.built",
      "buildkit.start",
      "buildkit.walls",
      "buildkit.apart",
      "buildkit.projects",
      "pod-builds.pinned",
    ],
    "a Dockerfile is built in one namespace, pushed, pulled and served in another",
    async () => {
      const { on, site, apps, images } = await buildingImages(databases);
      const { buildId, status } = await site.deploy(
        "app",
        withDockerfile(DOCKERFILE, { "server.py": SERVER }),
      );
      const log = await site.log("app", buildId);
      expect([status, await site.message("app", buildId), log]).toEqual([
        "success",
        null,
        expect.stringContaining("secrets: []"),
      ]);
      expect((await on.call("app")).text).toBe("hello|/srv|in a step|33");
      const { config } = (await on.service.store.versions.find(buildId))!;
      expect(config.built?.reference).toMatch(/\/app@sha256:[0-9a-f]{64}$/);
      await images.untilEmpty();

      const image = `${config.built?.reference.split("@")[0]}:${buildId}`;
      const toml = `[deployment]\ndocker_base_image_url = "${image}"\n${SMALL}`;
      const named = await site.deploy("named", bundle(answering("here"), { "millrace.toml": toml }));
      expect([named.status, await site.answer("named")]).toEqual(["success", "here"]);
      const version = await on.service.store.versions.find(named.buildId);
      expect(version?.config.built).toEqual({ reference: config.built?.reference, start: null });

      const again = await site.deploy("app", withDockerfile(DOCKERFILE, { "server.py": SERVER }));
      expect(again.status).toBe("success");
      expect(await site.log("app", again.buildId)).toContain("CACHED");

      const foreign = config.built?.reference.replace(site.projectId, "p-other");
      // By a name of another registry, too, whose mirror it may be.
      for (const name of [foreign, "millrace/p-other/app:cache"]) {
        const refused = await site.deploy("other", withDockerfile(`FROM ${name}\nCMD ["true"]\n`));
        expect(await site.message("other", refused.buildId)).toMatch(
          /^the image could not be built: .*denied/i,
        );
      }
      const failed = await site.deploy("failing", withDockerfile(`FROM ${BASE}\nRUN exit 3\n`));
      expect(await site.message("failing", failed.buildId)).toMatch(
        /^the image could not be built: .*exit code: 3/,
      );
      await until("they scale to zero", () => on.ready("app") + on.ready("named") === 0);
      await Promise.all([images.untilEmpty(), apps.untilEmpty()]);
    },
  );

  verifies(["buildkit.left", "buildkit.reasons"], "what ends a build early leaves nothing", async () => {
    const { site, images } = await buildingImages(databases);
    const begin = async (app: string): Promise<string> => {
      const { buildId, uploadUrl } = await site.begin(app);
      await site.put(uploadUrl, withDockerfile(`FROM ${BASE}\nRUN echo asleep; sleep 600\n`));
      await site.logged(app, buildId, "asleep");
      return buildId;
    };
    await site.cancel("cancelled", await begin("cancelled"));
    await images.untilEmpty();
    const deleted = await begin("deleted");
    const [pod = ""] = await images.left(["pods"]);
    await images.remove("api/v1", "pods", pod.split("/")[1] ?? "");
    expect(await site.ended("deleted", deleted)).toBe("build_failure");
    expect(await site.message("deleted", deleted)).toMatch(/^the build's seat p-\S+-deleted-build-\S+ /);
    await images.untilEmpty();
  });

  verifies("buildkit.apart", "doctor says where the cluster admits no such pods", async () => {
    const { on, images } = await buildingImages(databases);
    const inMain = { ...on.settings, buildkitNamespace: null };
    const worst = (findings: readonly { status: string; message: string }[]) =>
      findings.map(({ status, message }) => `${status} ${message}`).join("\n");
    expect(worst(await checkKubernetes(on.settings, {}))).toContain(`in namespace ${images.name}`);
    expect(worst(await checkKubernetes(inMain, {}))).toMatch(
      /admits no pods that build images: .*violates PodSecurity/,
    );
  });

  verifies("buildkit.confined", "no pod in the namespace for images gets to its machine", async () => {
    const namespace = await TestNamespace.make();
    const images = await namespace.forImages();
    const container = { name: "c", image: "localhost/none:1" };
    const walls = {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1 },
    };
    const plain = { ...walls, containers: [container] };
    const withContext = (securityContext: object) => ({
      ...walls,
      containers: [{ ...container, securityContext }],
    });
    const isHeld = async () => (await images.refusalOf({ ...plain, hostPID: true })) !== null;
    await until("the policy holds", isHeld);
    expect(await images.refusalOf(plain)).toBeNull();
    const escapes = [
      { ...plain, hostNetwork: true },
      { ...plain, hostIPC: true },
      { ...plain, volumes: [{ name: "v", hostPath: { path: "/" } }] },
      { ...plain, automountServiceAccountToken: true },
      { ...plain, securityContext: { runAsNonRoot: true } },
      { ...plain, initContainers: [{ ...container, name: "i", securityContext: { privileged: true } }] },
      withContext({ privileged: true }),
      withContext({ runAsNonRoot: false, runAsUser: 0 }),
      withContext({ capabilities: { add: ["SYS_ADMIN"] } }),
    ];
    for (const spec of escapes)
      expect([spec, await images.refusalOf(spec)]).toEqual([
        spec,
        expect.stringContaining("pods that build images"),
      ]);
  });
});
